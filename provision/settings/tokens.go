package settings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/atomicfile"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// operator is the name of each host's own token, which the crontab and the health check
// present. Its secret is made on the host, by package environment.
const operator = "toolkit"

const tokensHeader = `# Tokens of the %s daemon on this host. The toolkit keeps those of its tokens
# file and the one named toolkit, and leaves every other line alone.
`

// hostTokens returns the tokens that the host makes for itself and for callers of its daemon.
func (f *Files) hostTokens() []Caller {
	return append([]Caller{{operator, f.Program.Scopes, f.Program.TokenFile()}}, f.Callers...)
}

// ofHost returns the entry of the tokens file for a token that a host has made; false if it
// has not been made yet.
func ofHost(c Caller, file host.File) (entry, bool) {
	secret := strings.TrimSpace(file.Content)
	return entry{name: c.Name, token: configs.TokenOf(c.Name, c.Scopes, secret).Digest(), scopes: c.Scopes}, secret != ""
}

// TokensFile is the step for tokens.yaml, if the daemon requires tokens. Of the operator's
// tokens, the file holds only the digests.
func (f *Files) TokensFile() step.Undoer {
	return f.editing(tokensName, f.wantTokens)
}

func (f *Files) wantTokens(ctx context.Context, h host.Host) (e edit, err error) {
	_, s, err := f.want(ctx, h)
	if err != nil || s.TokensFile == "" {
		return e, err
	}
	e.file, e.managed = f.file(s.TokensFile), f.managed(tokensName)
	paths := []string{e.file.Path, e.managed.Path}
	for _, c := range f.hostTokens() {
		paths = append(paths, c.TokenFile)
	}
	now, err := host.ReadFiles(ctx, h, paths...)
	if err != nil {
		return e, err
	}
	e.before, e.managedBefore = now[e.file.Path], now[e.managed.Path]
	want, err := f.entries()
	if err != nil {
		return e, err
	}
	for _, c := range f.hostTokens() {
		if own, made := ofHost(c, now[c.TokenFile]); made {
			want = append(want, own)
		} else {
			e.missing = fmt.Errorf("%s does not exist\nhint: go tool mage install:env makes it", c.TokenFile)
		}
	}
	start := e.before.Content
	if e.before.Path == "" {
		start = fmt.Sprintf(tokensHeader, f.Program.Name)
	}
	if e.file.Content, err = editTokens(e.file.Path, start, want, listed(e.managedBefore.Content)); err != nil {
		return e, onHost(e.file.Path, err)
	}
	e.managed.Content = names(want)
	return e, nil
}

// entry is a token as the file holds it.
type entry struct {
	name, token string
	scopes      []string
}

// entries are the operator's tokens.
func (f *Files) entries() ([]entry, error) {
	var all []entry
	for _, t := range f.Tokens {
		if slices.ContainsFunc(f.hostTokens(), func(c Caller) bool { return c.Name == t.Name }) {
			return nil, fmt.Errorf("token %s: that name is taken by a token that each host makes by itself: choose another", t.Name)
		}
		all = append(all, entry{t.Name, t.Digest(), t.Scopes})
	}
	return all, nil
}

func names(all []entry) string {
	var list []string
	for _, e := range all {
		list = append(list, e.name)
	}
	slices.Sort(list)
	return strings.Join(list, "\n") + "\n"
}

func (e entry) lines() string {
	name, err := yaml.Dump(e.name, yaml.WithV3Defaults())
	if err != nil {
		name = []byte("''\n")
	}
	return fmt.Sprintf("- name: %s  token: %s\n  scopes: [%s]\n", name, e.token, strings.Join(e.scopes, ", "))
}

// editTokens puts entries into the text of a tokens file, removes those of managed that are
// no longer wanted, and leaves the rest.
func editTokens(path, text string, want []entry, managed []string) (string, error) {
	items, err := parseEntries(path, text)
	if err != nil {
		return "", err
	}
	all := slices.Collect(strings.Lines(text))
	if n := len(all); n > 0 && !strings.HasSuffix(all[n-1], "\n") {
		all[n-1] += "\n"
	}
	there := map[string]bool{}
	for _, item := range slices.Backward(items) {
		i := slices.IndexFunc(want, func(e entry) bool { return e.name == item.name })
		switch {
		case i >= 0 && want[i].same(item.entry):
			there[item.name] = true
		case i >= 0:
			there[item.name] = true
			all = slices.Replace(all, item.from, item.to, want[i].lines())
		case slices.Contains(managed, item.name):
			all = slices.Delete(all, item.from, item.to)
		}
	}
	text = strings.Join(all, "")
	if len(items) == 0 {
		text = strings.TrimSuffix(text, "[]\n")
	}
	for _, e := range want {
		if !there[e.name] {
			text += e.lines()
		}
	}
	if _, err := parseEntries(path, text); err != nil {
		return "", fmt.Errorf("%s: cannot be edited entry by entry: %w", path, err)
	}
	return text, nil
}

func (e entry) same(o entry) bool {
	return e.token == o.token && slices.Equal(e.scopes, o.scopes)
}

// item is an entry with its lines: from is included, to is not, and both count from 0.
type item struct {
	entry
	from, to int
}

func parseEntries(path, text string) ([]item, error) {
	var doc yaml.Node
	loader, err := yaml.NewLoader(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if err := loader.Load(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: not YAML: %w", path, err)
	}
	if len(doc.Content) != 1 || doc.Content[0].ShortTag() == "!!null" {
		return nil, nil
	}
	list := doc.Content[0]
	if list.Kind != yaml.SequenceNode || list.Style&yaml.FlowStyle != 0 && len(list.Content) > 0 {
		return nil, fmt.Errorf("%s:%d: want a list of tokens, each beginning with a line such as - name: crawler", path, list.Line)
	}
	all := slices.Collect(strings.Lines(text))
	var items []item
	for i, n := range list.Content {
		it := item{from: n.Line - 1, to: len(all)}
		for it.from > 0 && !strings.HasPrefix(strings.TrimSpace(all[it.from]), "-") {
			it.from--
		}
		if i+1 < len(list.Content) {
			it.to = list.Content[i+1].Line - 1
		}
		for it.to > it.from+1 && blankOrComment(all[it.to-1]) {
			it.to--
		}
		if n.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("%s:%d: want name, token and scopes", path, n.Line)
		}
		for k := 0; k+1 < len(n.Content); k += 2 {
			switch value := n.Content[k+1]; n.Content[k].Value {
			case "name":
				it.name = value.Value
			case "token":
				it.token = value.Value
			case "scopes":
				for _, s := range value.Content {
					it.scopes = append(it.scopes, s.Value)
				}
			}
		}
		items = append(items, it)
	}
	return items, nil
}

func blankOrComment(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "#")
}

// localHeader begins a tokens file on the operator's machine.
const localHeader = `# Tokens of the daemons, for go tool mage settings:push. It holds digests:
# a token itself is shown once, when go tool mage settings:token makes it.
`

// MakeToken adds a token to the operator's tokens file, which is created if it does not exist,
// and returns its secret, which is stored nowhere. Scopes are some of those allowed. A name
// that exists requires replace; its old secret becomes invalid when the file is pushed.
func MakeToken(path, name string, scopes, allowed []string, replace bool) (secret string, err error) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return "", fmt.Errorf("token name %q: want a word for whoever uses it\nhint: go tool mage settings:token -name=crawler -scopes=filter", name)
	}
	if name == operator {
		return "", fmt.Errorf("token name %s: taken by the token that each host makes for itself", operator)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte(localHeader)
	} else if err != nil {
		return "", err
	}
	items, err := parseEntries(path, string(text))
	if err != nil {
		return "", err
	}
	if !replace && slices.ContainsFunc(items, func(i item) bool { return i.name == name }) {
		return "", fmt.Errorf("%s: token %s already exists\nhint: -replace gives it a new secret; or choose another -name", path, name)
	}
	secret, made := configs.NewToken(name, scopes)
	after, err := editTokens(path, string(text), []entry{{name, made.Digest(), scopes}}, nil)
	if err != nil {
		return "", err
	}
	// What the daemon would refuse is refused here: with it in the file, no target would do anything.
	if _, err := configs.ParseTokensOf(path, []byte(after), allowed); err != nil {
		return "", err
	}
	if err := atomicfile.Write(path, []byte(after), 0o600); err != nil {
		return "", err
	}
	return secret, nil
}
