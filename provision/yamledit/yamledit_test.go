package yamledit

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

func value(t testing.TB, v any) *yaml.Node {
	t.Helper()
	n, err := Value(v)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestApply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old   string
		key   string
		value any // nil: the key is removed
		want  string
	}{
		"empty file":          {"", "redis.addrs", []string{"a:1"}, "redis:\n  addrs:\n    - a:1\n"},
		"comments only":       {"# mine\n", "store", "redis", "# mine\nstore: redis\n"},
		"replace":             {"# top\nlisten: 127.0.0.1:8000 # ours\n\n# about store\nstore: embedded\n", "listen", "0.0.0.0:80", "# top\nlisten: 0.0.0.0:80  # ours\n\n# about store\nstore: embedded\n"},
		"same value":          {"listen:   'a:1'   # x\n", "listen", "a:1", "listen:   'a:1'   # x\n"},
		"no line end":         {"store: redis", "listen", "a:1", "store: redis\nlisten: a:1\n"},
		"into a section":      {"redis:\n    # the server\n    addrs: [a:1]\n    # last\n\n# next\nlog:\n    level: info\n", "redis.db", 3, "redis:\n    # the server\n    addrs: [a:1]\n    db: 3\n    # last\n\n# next\nlog:\n    level: info\n"},
		"commented section":   {"redis:\n  # addrs: []\nlog: {level: info}\n", "redis.db", 3, "redis:\n  db: 3\n  # addrs: []\nlog: {level: info}\n"},
		"list over lines":     {"filters:\n- {id: 1}\n# about two\n- {id: 2}\nlisten: a:1\n", "filters", []int{}, "filters: []\nlisten: a:1\n"},
		"list in brackets":    {"filters: [\n  {id: 1},\n  # two\n  {id: 2},\n]\nlisten: a:1\n", "filters", []int{7}, "filters:\n  - 7\nlisten: a:1\n"},
		"section in braces":   {"redis: {addrs: [a:1], db: 0} # r\nx: 1\n", "redis.db", 3, "redis:\n  addrs: ['a:1']\n  db: 3\nx: 1\n"},
		"from braces":         {"redis: {db: 0}\nx: 1\n", "redis.db", nil, "redis:\nx: 1\n"},
		"literal with hash":   {"x: |\n  one\n  # no comment\n# comment\ny: 1\n", "x", "z", "x: z\n# comment\ny: 1\n"},
		"remove":              {"a: 1\n# b's\nb: 2\nc: 3\n", "b", nil, "a: 1\n# b's\nc: 3\n"},
		"remove in a section": {"s:\n  a: 1\n  b:\n    - 1\n    - 2\n\nc: 3\n", "s.b", nil, "s:\n  a: 1\n\nc: 3\n"},
		"remove what is not":  {"a: 1\n", "s.b", nil, "a: 1\n"},
		"document marks":      {"---\na: 1\n...\n", "b", 2, "---\na: 1\nb: 2\n...\n"},
		"windows lines":       {"a: 1\r\nb: 2\r\n", "b", 3, "a: 1\r\nb: 3\n"},
		"null value":          {"s:\nb: 2\n", "s", "x", "s: x\nb: 2\n"},
		"text like a number":  {"", "a", "123", "a: \"123\"\n"},
		"long text":           {"", "a", strings.Repeat("word ", 60) + "end", "a: " + strings.Repeat("word ", 60) + "end\n"},
	} {
		e := Edit{Key: c.key}
		if c.value != nil {
			e.Value = value(t, c.value)
		}
		got, err := Apply("f.yaml", c.old, []Edit{e})
		if err != nil || got != c.want {
			t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", name, err, got, c.want)
		}
		if again, err := Apply("f.yaml", got, []Edit{e}); err != nil || again != got {
			t.Errorf("%s: a second time: %v\n%s", name, err, again)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, key, want string }{
		"no YAML":            {"a: [\nb: 1\n", "a", "f.yaml:"},
		"list":               {"- 1\n", "a", "f.yaml:1: want keys and values"},
		"two documents":      {"a: 1\n---\nb: 2\n", "a", "second document"},
		"value as section":   {"x: 1\nredis: here\n", "redis.db", "f.yaml:2: redis: want keys and values"},
		"used anchor":        {"a: &x 1\nb: *x\n", "a", "f.yaml"},
		"whole file inline":  {"{a: 1}\n", "a", "in braces"},
		"broken indentation": {"a:\n  b: 1\n c: 2\n", "a.b", "f.yaml:"},
	} {
		got, err := Apply("f.yaml", c.old, []Edit{{Key: c.key, Value: value(t, 5)}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

// FuzzApply checks that, whatever the file, an edit does what it should or is refused, which
// Apply itself verifies; that it does not panic; and that applying it a second time changes
// nothing.
func FuzzApply(f *testing.F) {
	for _, seed := range []string{
		"", "a: 1\nb:\n  c: 2 # x\n  # y\n\nd: [1,\n 2]\n", "b: {c: 1, d: {e: 2}}\n", "b:\n- 1\n-  c: 3\n", "b: |\n  x\n\n  # y\nc: 1", "? b\n: 1\n", "b: 'x\n  y'\n#\n", "b:\n    c:\n        - 1\n    d: >\n      f\n", "\"b\": &q {c: *q}\n",
	} {
		f.Add(seed, "b.c", false)
		f.Add(seed, "b", true)
	}
	f.Fuzz(func(t *testing.T, text, key string, remove bool) {
		if key == "" || strings.Trim(key, "abc.") != "" || strings.Contains(key, "..") || strings.HasPrefix(key, ".") || strings.HasSuffix(key, ".") {
			t.Skip("no key of settings")
		}
		e := Edit{Key: key}
		if !remove {
			e.Value = value(t, "new text")
		}
		got, err := Apply("f.yaml", text, []Edit{e})
		if err != nil {
			return
		}
		again, err := Apply("f.yaml", got, []Edit{e})
		if err != nil || again != got {
			t.Fatalf("a second time: %v\n%q\n%q", err, got, again)
		}
	})
}
