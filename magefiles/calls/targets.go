// Package calls reads calls of mage's targets as people write them (--inventory=F, -inventory F, -dry-run), and says
// of a wrong one what to type. Targets and flags are those of the magefiles; none is listed here but the flags that
// targets share.
package calls

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/magefile/mage/parse"
)

// Targets are those of the magefiles.
type Targets struct {
	funcs   parse.Functions
	aliases map[string]*parse.Function
	// parameter is that which a target has in place of its shared flags
	parameter map[*parse.Function]string
}

// Parse reads the targets from the magefiles in a folder, and returns the paths of these; nil if there are none.
func Parse(dir string) (*Targets, []string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		return nil, nil, err
	}
	var files []string
	paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") })
	for _, p := range paths {
		files = append(files, filepath.Base(p))
	}
	info, err := parse.PrimaryPackage("go", dir, files, true)
	if err != nil {
		return nil, nil, err
	}
	t := &Targets{info.Funcs, info.Aliases, map[*parse.Function]string{}}
	for _, f := range t.funcs {
		t.expand(f)
	}
	return t, paths, nil
}

// find returns the target with a name, in upper or lower case.
func (t *Targets) find(name string) (*parse.Function, error) {
	for alias, f := range t.aliases {
		if strings.EqualFold(alias, name) {
			return f, nil
		}
	}
	names := make([]string, 0, len(t.funcs))
	for _, f := range t.funcs {
		if strings.EqualFold(f.TargetName(), name) {
			return f, nil
		}
		names = append(names, shown(f))
	}
	names = slices.AppendSeq(names, maps.Keys(t.aliases))
	hint := "go tool mage -l lists the targets"
	if near := orList(t.havingWord(name)); near != "" {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	} else if near := nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	}
	return nil, fmt.Errorf("there is no target %s\nhint: %s", name, hint)
}

// havingWord returns the targets of which a word is one part: those of a namespace, or the same verb in
// several, such as status.
func (t *Targets) havingWord(word string) []string {
	var having []string
	for _, f := range t.funcs {
		name := shown(f)
		if parts := strings.Split(name, ":"); len(parts) > 1 && slices.ContainsFunc(parts, func(p string) bool { return strings.EqualFold(p, word) }) {
			having = append(having, name)
		}
	}
	slices.Sort(having)
	return having
}

// orList joins words for people: a, b or c.
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// shown returns a target's name as mage lists it: bitmap:writebackStart.
func shown(f *parse.Function) string {
	parts := strings.Split(f.TargetName(), ":")
	for i, p := range parts {
		runes := []rune(p)
		for n := range runes { // the first capitals: SSHSetup is sshSetup
			if n > 0 && n+1 < len(runes) && unicode.IsLower(runes[n+1]) || unicode.IsLower(runes[n]) {
				break
			}
			runes[n] = unicode.ToLower(runes[n])
		}
		parts[i] = string(runes)
	}
	return strings.Join(parts, ":")
}

// Read checks targets with their arguments and flags, and returns them in the form that mage reads, shared flags
// packed or not; or, if -h stands among the flags of a target, its help.
func (t *Targets) Read(args []string, program string, packed bool) (words []string, help string, err error) {
	var before *parse.Function
	for len(args) > 0 {
		f, err := t.find(args[0])
		if err != nil {
			return nil, "", t.stray(before, args[0], err)
		}
		words, args = append(words, args[0]), args[1:]
		for _, want := range f.RequiredArgs() {
			if len(args) == 0 || strings.HasPrefix(args[0], "-") {
				return nil, "", fmt.Errorf("%s wants <%s> next\nhint: go tool mage %[1]s <%[2]s>, and flags after it; go tool mage -h %[1]s describes it", shown(f), want.Name)
			}
			words, args = append(words, args[0]), args[1:]
		}
		given := map[string]any{}
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			if name := strings.TrimLeft(args[0], "-"); name == "h" || name == "help" {
				return nil, t.describe(f, program), nil
			}
			flag, text, taken, err := t.flag(f, args)
			if err != nil {
				return nil, "", err
			}
			value, err := parsed(flag.Type, text)
			if err != nil {
				return nil, "", fmt.Errorf("-%s=%s of %s: %w%s", flag.Name, text, shown(f), err, comment(flag))
			}
			if args = args[taken:]; packed && slices.Contains(shared[t.parameter[f]], flag) {
				given[flag.Name] = value
			} else {
				words = append(words, "-"+flag.Name+"="+text)
			}
		}
		if len(given) > 0 {
			all, err := json.Marshal(given)
			if err != nil {
				return nil, "", err
			}
			words = append(words, "-"+t.parameter[f]+"="+string(all))
		}
		before = f
	}
	return words, "", nil
}

// stray explains a word that stands after a target and is not a target itself.
func (t *Targets) stray(before *parse.Function, word string, err error) error {
	if before == nil {
		return err
	}
	if _, no := strconv.ParseBool(word); no == nil {
		return fmt.Errorf("%s: there is no such target\nhint: a flag that is on or off has its value behind =, as in -dryRun=%[1]s", word)
	}
	if _, takes := flagOf(before, "hosts"); takes && !strings.Contains(err.Error(), "did you mean") {
		return fmt.Errorf("there is no target %s\nhint: if it is a host: go tool mage %s -hosts=%[1]s", word, shown(before))
	}
	return err
}

// flag reads the first of args; the next one is its value if it is written separately.
func (t *Targets) flag(f *parse.Function, args []string) (flag parse.Arg, value string, taken int, err error) {
	name, value, has := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	flag, found := flagOf(f, name)
	switch {
	case !found:
		return flag, "", 0, unknownFlag(f, name)
	case has:
		return flag, value, 1, nil
	case flag.Type == "bool":
		return flag, "true", 1, nil
	case len(args) > 1 && !strings.HasPrefix(args[1], "-"):
		return flag, args[1], 2, nil
	}
	return flag, "", 0, fmt.Errorf("-%s of %s wants a value: -%[1]s=<%[3]s>%[4]s", flag.Name, shown(f), flag.Type, comment(flag))
}

func comment(a parse.Arg) string {
	if a.Comment == "" {
		return ""
	}
	return "\nhint: -" + a.Name + ": " + a.Comment
}

// Misplaced explains a flag that stands before the target in a line; it returns nil if no target has it.
func (t *Targets) Misplaced(name string, line []string) error {
	if !slices.ContainsFunc(t.funcs, func(f *parse.Function) bool { _, found := flagOf(f, name); return found }) {
		return nil
	}
	target := "TARGET"
	for _, word := range slices.Backward(line) {
		if f, err := t.find(word); err == nil {
			target = shown(f)
		}
	}
	return fmt.Errorf("-%s stands before the target\nhint: the target first, then its flags: go tool mage %s -%[1]s", name, target)
}

// flagOf returns a target's flag, however its words are joined: dryRun, dry-run, dry_run.
func flagOf(f *parse.Function, name string) (parse.Arg, bool) {
	plain := func(text string) string { return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(text)) }
	for _, a := range f.OptionalArgs() {
		if plain(a.Name) == plain(name) {
			return a, true
		}
	}
	return parse.Arg{}, false
}

func unknownFlag(f *parse.Function, name string) error {
	var names []string
	for _, a := range f.OptionalArgs() {
		names = append(names, "-"+a.Name)
	}
	hint := fmt.Sprintf("go tool mage -h %s describes it", shown(f))
	if len(names) > 0 {
		hint = "it takes " + strings.Join(names, " ") + "; " + hint
	}
	if near := nearest("-"+name, names); near != "" {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	}
	return fmt.Errorf("%s has no flag -%s\nhint: %s", shown(f), name, hint)
}

// parsed reads a value as mage does.
func parsed(kind, text string) (value any, err error) {
	want := "text"
	switch kind {
	case "bool":
		want = "true or false"
		value, err = strconv.ParseBool(text)
	case "int":
		want = "a whole number"
		value, err = strconv.Atoi(text)
	case "float64":
		want = "a number"
		value, err = strconv.ParseFloat(text, 64)
	case "time.Duration":
		want = "a time such as 90s or 5m30s"
		value, err = time.ParseDuration(text)
	default:
		value = text
	}
	if err != nil {
		return nil, errors.New("want " + want)
	}
	return value, nil
}

// nearest returns the name that was most likely meant, "" for none.
func nearest(word string, names []string) string {
	best, least := "", 1+len([]rune(word))/3
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < least || d == least && best == "" {
			best, least = name, d
		}
	}
	return best
}

// distance returns how many letters must be inserted, deleted or changed (Levenshtein).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		corner := row[0]
		row[0] = i + 1
		for j := range y {
			change := corner
			if x[i] != y[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, corner+1)
		}
	}
	return row[len(y)]
}
