// Command mage is what `go tool mage` runs: mage itself, behind a reader of the command
// line that accepts flags as people write them (--inventory=F, -inventory F, -dry-run). For
// a call that mage would refuse, it says what is wrong and what to type. Targets and flags
// are those of the magefiles; none is listed here.
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
	"github.com/magefile/mage/parse"
)

func main() {
	args, err := rewrite(os.Args[1:], magefiles)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(2) // as mage does for a call that it does not understand
	}
	os.Exit(mage.ParseAndRun(os.Stdout, os.Stderr, os.Stdin, args))
}

// rewrite returns the call in the form that mage reads. Calls that are not about targets stay as they are.
func rewrite(args []string, read func(dir string) (*targets, error)) ([]string, error) {
	call, command, err := mage.Parse(io.Discard, io.Discard, args)
	if err != nil {
		return args, misplaced(args, err, read)
	}
	if command != mage.None || len(call.Args) == 0 {
		return args, nil
	}
	all, err := read(call.Dir)
	if err != nil || all == nil {
		return args, nil // mage says what is wrong with its folder
	}
	before := slices.Clone(args[:len(args)-len(call.Args)])
	if call.Help {
		f, err := all.find(call.Args[0])
		if err != nil {
			return args, err
		}
		return append(append(before, all.shown(f)), call.Args[1:]...), nil // mage describes no aliases
	}
	words, help, err := all.read(call.Args)
	if help {
		before = append(before, "-h")
	} else if err == nil && !call.List && !call.Autocomplete {
		sayBuilding(os.Stderr, call, all)
	}
	return append(before, words...), err
}

// misplaced explains a flag of a target that stands before the target; it returns nil if
// mage's own message is enough.
func misplaced(args []string, cause error, read func(dir string) (*targets, error)) error {
	_, name, ok := strings.Cut(cause.Error(), "flag provided but not defined: -")
	if !ok {
		return nil
	}
	all, err := read("")
	if err != nil || all == nil {
		return nil
	}
	for _, f := range all.funcs {
		if _, found := flagOf(f, name); found {
			return fmt.Errorf("-%s stands before the target\nhint: the target first, then its flags: go tool mage %s -%[1]s", name, exampleTarget(args, all))
		}
	}
	return nil
}

// exampleTarget returns the first target that the call names, "TARGET" if it names none.
func exampleTarget(args []string, all *targets) string {
	for _, a := range args {
		if f, err := all.find(a); err == nil {
			return all.shown(f)
		}
	}
	return "TARGET"
}

// magefiles reads the targets of the folder that mage would use; nil if there are none.
func magefiles(dir string) (*targets, error) {
	if dir == "" {
		dir = "."
	}
	if sub := filepath.Join(dir, mage.MagefilesDirName); isDir(sub) {
		dir = sub
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") })
	files := make([]string, len(paths))
	for i, p := range paths {
		files[i] = filepath.Base(p)
	}
	info, err := parse.PrimaryPackage("go", dir, files, true)
	if err != nil {
		return nil, err
	}
	return &targets{funcs: info.Funcs, aliases: info.Aliases, files: paths}, nil
}

// sayBuilding tells people that mage compiles the targets, which takes long only the first time.
func sayBuilding(out io.Writer, call mage.Invocation, all *targets) {
	program, err := mage.ExeName(cmp.Or(call.GoCmd, "go"), call.CacheDir, all.files)
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
