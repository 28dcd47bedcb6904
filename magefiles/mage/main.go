// Command mage is what `go tool mage` runs: mage itself, behind the reader of package calls, so that a wrong call is
// explained before anything is compiled.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/magefile/mage/mage"

	"github.com/cr-clawer/urifilter/magefiles/calls"
)

func main() {
	args, help, err := rewrite(os.Args[1:], magefiles)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(2) // as mage does for a call that it does not understand
	}
	if help != "" {
		fmt.Print(help)
		return
	}
	os.Exit(mage.ParseAndRun(os.Stdout, os.Stderr, os.Stdin, args))
}

// rewrite returns the call in the form that mage reads, or the help that it asks for, which mage would give without the
// shared flags. Calls that are not about targets stay as they are.
func rewrite(args []string, read func(dir string) (*calls.Targets, []string, error)) (words []string, help string, err error) {
	call, command, err := mage.Parse(io.Discard, io.Discard, args)
	if err != nil {
		return args, "", misplaced(args, err, read)
	}
	if command != mage.None || len(call.Args) == 0 {
		return args, "", nil
	}
	all, files, err := read(call.Dir)
	if err != nil || all == nil {
		return args, "", nil // mage says what is wrong with its folder
	}
	if call.Help {
		help, err = all.Help(call.Args[0], "go tool mage")
		return args, help, err
	}
	words, help, err = all.Read(call.Args, "go tool mage", false)
	if err == nil && help == "" && !call.List && !call.Autocomplete {
		sayBuilding(os.Stderr, call, files)
	}
	return append(slices.Clone(args[:len(args)-len(call.Args)]), words...), help, err
}

// misplaced explains a flag of a target that stands before the target; it returns nil if
// mage's own message is enough.
func misplaced(args []string, cause error, read func(dir string) (*calls.Targets, []string, error)) error {
	_, name, ok := strings.Cut(cause.Error(), "flag provided but not defined: -")
	if !ok {
		return nil
	}
	all, _, err := read("")
	if err != nil || all == nil {
		return nil
	}
	return all.Misplaced(name, args)
}

// magefiles reads the targets of the folder that mage would use, and returns the paths of their sources; nil if there
// are none.
func magefiles(dir string) (*calls.Targets, []string, error) {
	dir = cmp.Or(dir, ".")
	if sub := filepath.Join(dir, mage.MagefilesDirName); isDir(sub) {
		dir = sub
	}
	return calls.Parse(dir)
}

// sayBuilding tells people that mage compiles the targets, which takes long only the first time.
func sayBuilding(out io.Writer, call mage.Invocation, files []string) {
	program, err := mage.ExeName(cmp.Or(call.GoCmd, "go"), call.CacheDir, files)
	if err != nil {
		return // mage reports it
	}
	if _, err := os.Stat(program); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(out, "compiling the targets of magefiles: the first time takes a minute or more")
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
