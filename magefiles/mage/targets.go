package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/magefile/mage/parse"
)

// targets are those of the magefiles.
type targets struct {
	funcs   parse.Functions
	aliases map[string]*parse.Function
	files   []string // of the magefiles
}

// find returns the target with a name, in upper or lower case.
func (t *targets) find(name string) (*parse.Function, error) {
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
		names = append(names, t.shown(f))
	}
	for alias := range t.aliases {
		names = append(names, alias)
	}
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
func (t *targets) havingWord(word string) []string {
	var having []string
	for _, f := range t.funcs {
		name := t.shown(f)
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
func (t *targets) shown(f *parse.Function) string {
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

// read checks targets with their arguments and flags, and returns them in the form that mage
// reads. help means that -h stands among the flags of a target, which is then the only word.
func (t *targets) read(args []string) (words []string, help bool, err error) {
	var before *parse.Function
	for len(args) > 0 {
		f, err := t.find(args[0])
		if err != nil {
			return nil, false, t.stray(before, args[0], err)
		}
		words, args = append(words, args[0]), args[1:]
		for _, want := range f.RequiredArgs() {
			if len(args) == 0 || strings.HasPrefix(args[0], "-") {
				return nil, false, fmt.Errorf("%s wants <%s> next\nhint: go tool mage %[1]s <%[2]s>, and flags after it; go tool mage -h %[1]s describes it", t.shown(f), want.Name)
			}
			words, args = append(words, args[0]), args[1:]
		}
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			if name := strings.TrimLeft(args[0], "-"); name == "h" || name == "help" {
				return []string{t.shown(f)}, true, nil
			}
			word, taken, err := t.flag(f, args)
			if err != nil {
				return nil, false, err
			}
			words, args = append(words, word), args[taken:]
		}
		before = f
	}
	return words, false, nil
}

// stray explains a word that stands after a target and is not a target itself.
func (t *targets) stray(before *parse.Function, word string, err error) error {
	if before == nil {
		return err
	}
	if _, no := strconv.ParseBool(word); no == nil {
		return fmt.Errorf("%s: there is no such target\nhint: a flag that is on or off has its value behind =, as in -dryRun=%[1]s", word)
	}
	if _, takes := flagOf(before, "hosts"); takes && !strings.Contains(err.Error(), "did you mean") {
		return fmt.Errorf("there is no target %s\nhint: if it is a host: go tool mage %s -hosts=%[1]s", word, t.shown(before))
	}
	return err
}

// flag reads the first of args; the next one is its value if it is written separately.
func (t *targets) flag(f *parse.Function, args []string) (word string, taken int, err error) {
	name, value, has := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
	flag, found := flagOf(f, name)
	if !found {
		return "", 0, t.unknownFlag(f, name)
	}
	taken = 1
	switch {
	case has:
	case flag.Type == "bool":
		value = "true"
	case len(args) > 1 && !strings.HasPrefix(args[1], "-"):
		value, taken = args[1], 2
	default:
		return "", 0, fmt.Errorf("-%s of %s wants a value: -%[1]s=<%[3]s>%[4]s", flag.Name, t.shown(f), flag.Type, comment(flag))
	}
	if err := check(flag.Type, value); err != nil {
		return "", 0, fmt.Errorf("-%s=%s of %s: %w%s", flag.Name, value, t.shown(f), err, comment(flag))
	}
	return "-" + flag.Name + "=" + value, taken, nil
}

func comment(a parse.Arg) string {
	if a.Comment == "" {
		return ""
	}
	return "\nhint: -" + a.Name + ": " + a.Comment
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

func (t *targets) unknownFlag(f *parse.Function, name string) error {
	var names []string
	for _, a := range f.OptionalArgs() {
		names = append(names, "-"+a.Name)
	}
	hint := fmt.Sprintf("go tool mage -h %s describes it", t.shown(f))
	if len(names) > 0 {
		hint = "it takes " + strings.Join(names, " ") + "; " + hint
	}
	if near := nearest("-"+name, names); near != "" {
		hint = fmt.Sprintf("did you mean %s? %s", near, hint)
	}
	return fmt.Errorf("%s has no flag -%s\nhint: %s", t.shown(f), name, hint)
}

// check returns an error if mage cannot read a value.
func check(kind, value string) error {
	switch kind {
	case "bool":
		if _, err := strconv.ParseBool(value); err != nil {
			return errors.New("want true or false")
		}
	case "int":
		if _, err := strconv.Atoi(value); err != nil {
			return errors.New("want a whole number")
		}
	case "float64":
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return errors.New("want a number")
		}
	case "time.Duration":
		if _, err := time.ParseDuration(value); err != nil {
			return errors.New("want a time such as 90s or 5m30s")
		}
	}
	return nil
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
