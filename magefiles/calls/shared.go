package calls

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/magefile/mage/parse"
)

var (
	hosts     = flag("hosts", "string", "only these hosts: names, patterns, roles such as role:filter, comma-separated")
	inventory = flag("inventory", "string", "the inventory in place of configs/hosts.yaml")
	dryRun    = flag("dryRun", "bool", "show what would change, and change nothing")
	resume    = flag("resume", "bool", "continue with the hosts that the last run did not finish")
	keepGoing = flag("keepGoing", "bool", "go on with other hosts after one has failed")
	parallel  = flag("parallel", "int", "how many hosts to work on at once")
	lines     = flag("json", "bool", "write JSON lines")
	verbose   = flag("v", "bool", "show what commands wrote")
)

// shared are the flags that targets have in common. A target that takes them has one parameter in their place, a
// *string with one of these names, which has those that were given as a JSON object.
var shared = map[string][]parse.Arg{
	"at":     {hosts, inventory},
	"see":    {hosts, inventory, verbose},
	"look":   {hosts, inventory, lines, verbose},
	"change": {hosts, inventory, dryRun, lines, verbose},
	"roll":   {hosts, inventory, dryRun, resume, keepGoing, parallel, lines, verbose},
}

func flag(name, kind, comment string) parse.Arg {
	return parse.Arg{Name: name, Type: kind, Optional: true, Comment: comment}
}

// expand puts the shared flags in the place of the parameter that has them.
func (t *Targets) expand(f *parse.Function) {
	for i, a := range f.Args {
		if flags, ok := shared[a.Name]; ok {
			t.parameter[f] = a.Name
			f.Args = slices.Replace(f.Args, i, i+1, flags...)
			return
		}
	}
}

// Help describes a target.
func (t *Targets) Help(target, program string) (string, error) {
	f, err := t.find(target)
	if err != nil {
		return "", err
	}
	return t.describe(f, program), nil
}

func (t *Targets) describe(f *parse.Function, program string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\nUsage:\n\n\t%s %s", f.Comment, program, shown(f))
	for _, a := range f.RequiredArgs() {
		fmt.Fprintf(&out, " <%s>", a.Name)
	}
	if f.HasOptionalArgs() {
		out.WriteString(" [<flags>]")
	}
	fmt.Fprintf(&out, "\n\n%s", f.FlagDocsString())
	var names []string
	for alias, of := range t.aliases {
		if of == f {
			names = append(names, alias)
		}
	}
	if slices.Sort(names); len(names) > 0 {
		fmt.Fprintf(&out, "Aliases: %s\n\n", strings.Join(names, ", "))
	}
	return out.String()
}

// Compiled reads the command line of the program that mage compiles from sources, and returns it as that program
// reads it; or the help that it asks for.
func Compiled(sources fs.FS, line []string) (words []string, help string, err error) {
	first, asked := 1, os.Getenv("MAGEFILE_HELP") == "1"
	for ; first < len(line) && strings.HasPrefix(line[first], "-"); first++ { // mage's own flags stand before the targets
		switch strings.TrimLeft(line[first], "-") {
		case "h", "help":
			asked = true
		case "t":
			first++
		}
	}
	if first >= len(line) {
		return line, "", nil
	}
	dir, err := os.MkdirTemp("", "magefiles") // mage's parser reads only folders
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, sources); err != nil {
		return nil, "", err
	}
	t, _, err := Parse(dir)
	if err != nil {
		return nil, "", err
	}
	program := filepath.Base(line[0])
	if asked {
		help, err = t.Help(line[first], program)
		return nil, help, err
	}
	words, help, err = t.Read(line[first:], program, true)
	return append(slices.Clone(line[:first]), words...), help, err
}
