package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
)

// of returns the settings in a text.
func of(t *testing.T, text, from string) Values {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Load([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return Of(doc.Content[0], from)
}

func TestValuesOverOneAnother(t *testing.T) {
	t.Parallel()
	base := of(t, "store: embedded\nlog: {level: debug, format: text}\n", "base")
	own := of(t, "log: {level: warn}\nuri_num_scale: 1e6\n", "host a")
	both := base.Over(own)
	if err := both.Set("redis.addrs", []string{"10.0.0.1:6379"}, "role redis"); err != nil {
		t.Fatal(err)
	}
	text, err := both.Text()
	if err != nil {
		t.Fatal(err)
	}
	c, err := configs.Parse("settings", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if c.Log.Level != "warn" || c.Log.Format != "text" || c.URINumScale != 1e6 || c.Redis.Addrs[0] != "10.0.0.1:6379" || c.Durability != configs.Default().Durability {
		t.Errorf("%+v", c)
	}
	if !both.Has("log.level") || both.Has("redis.db") || base.Has("uri_num_scale") || own.Has("log.format") {
		t.Error("Has: what was over is in what was under")
	}
}

func TestFaultsNameTheKeyAndWhoGaveIt(t *testing.T) {
	t.Parallel()
	v := of(t, "listen: 0.0.0.0:8000\nfilters: [{name: '!'}]\n", "configs/hosts.yaml, settings").Over(of(t, "uri_num_scale: 0\n", "configs/hosts.yaml, host a"))
	_, err := v.Read(urifilter.Program())
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		"listen: \"0.0.0.0:8000\": other machines could call without a token",
		"uri_num_scale: 0: want 1 to 1099511627776 items (given in configs/hosts.yaml, host a)",
		"filters[0].name: \"!\"",
		"(given in configs/hosts.yaml, settings)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if _, err := of(t, "redis: {adrs: [x]}\n", "configs/hosts.yaml").Read(urifilter.Program()); err == nil || !strings.Contains(err.Error(), "redis.adrs: unknown key; did you mean addrs? (given in configs/hosts.yaml)") {
		t.Error(err)
	}
}

func TestReadFileNamesFileAndLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "base.yaml")
	if err := os.WriteFile(path, []byte("# x\nstor: redis\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(urifilter.Program(), path); err == nil || !strings.Contains(err.Error(), "base.yaml:2: stor: unknown key") {
		t.Error(err)
	}
}

func TestEditTokens(t *testing.T) {
	t.Parallel()
	crawler := entry{"crawler", "sha256:" + strings.Repeat("a", 64), []string{"filter"}}
	other := entry{"other", "sha256:" + strings.Repeat("b", 64), []string{"read", "filter"}}
	crawlerText, otherText := crawler.lines(), other.lines()
	mine := "# mine\n- name: mine # by hand\n  token: abcdefghijklmnopqrstuvwxyz\n  scopes: [admin]\n\n"
	for name, c := range map[string]struct {
		old     string
		want    []entry
		managed []string
		text    string
	}{
		"new":              {"# head\n", []entry{crawler, other}, nil, "# head\n" + crawlerText + otherText},
		"beside another's": {mine, []entry{crawler}, nil, mine + crawlerText},
		"rotated":          {"- {name: crawler, token: 'sha256:" + strings.Repeat("0", 64) + "', scopes: [filter]}\n" + mine, []entry{crawler}, []string{"crawler"}, crawlerText + mine},
		"gone":             {mine + crawlerText + otherText, []entry{other}, []string{"crawler", "other"}, mine + otherText},
		"as it is":         {mine + otherText, []entry{other}, []string{"other"}, mine + otherText},
		"empty list":       {"[]\n", []entry{other}, nil, otherText},
		"no line end":      {strings.TrimSuffix(otherText, "\n"), []entry{crawler, other}, nil, otherText + crawlerText},
		"dash alone":       {"-\n  name: crawler\n  token: x\n  scopes: []\n" + mine, []entry{crawler}, nil, crawlerText + mine},
	} {
		got, err := editTokens("t.yaml", c.old, c.want, c.managed)
		if err != nil || got != c.text {
			t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", name, err, got, c.text)
		}
	}
	for name, old := range map[string]string{"a map": "name: x\n", "in brackets": "[{name: x}]\n", "no YAML": "- [\n", "texts": "- x\n"} {
		if got, err := editTokens("t.yaml", old, []entry{crawler}, nil); err == nil || !strings.HasPrefix(err.Error(), "t.yaml") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

func TestMakeToken(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	secret, err := MakeToken(path, "crawler", []string{"filter"}, configs.Scopes(), false)
	if err != nil {
		t.Fatal(err)
	}
	second, err := MakeToken(path, "operator's \"own\"", []string{"read", "admin"}, configs.Scopes(), false)
	if err != nil {
		t.Fatal(err)
	}
	tokens, warnings, err := configs.LoadTokens(path)
	if err != nil || len(warnings) != 0 || len(tokens) != 2 {
		t.Fatal(tokens, warnings, err)
	}
	for s, name := range map[string]string{secret: "crawler", second: "operator's \"own\""} {
		if token, ok := tokens.Match(s); !ok || token.Name != name {
			t.Errorf("%s: %+v, %v", name, token, ok)
		}
	}
	before, _ := os.ReadFile(path)
	long := time.Unix(1e9, 0)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(before), secret) {
		t.Error("the file tells the secret")
	}
	for name, scopes := range map[string][]string{"crawler": {"filter"}, "x": {"write"}, "y": nil, "": {"filter"}, "toolkit": {"admin"}} {
		if _, err := MakeToken(path, name, scopes, configs.Scopes(), false); err == nil {
			t.Errorf("%q with %v was made", name, scopes)
		}
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Errorf("a refusal changed the file:\n%s", after)
	}
	if now, err := os.Stat(path); err != nil || !now.ModTime().Equal(long) {
		t.Errorf("a refused token was in the file for a while: %v", err)
	}
	rotated, err := MakeToken(path, "crawler", []string{"filter"}, configs.Scopes(), true)
	if err != nil {
		t.Fatal(err)
	}
	tokens, _, _ = configs.LoadTokens(path)
	if _, old := tokens.Match(secret); old || rotated == secret {
		t.Error("the old secret still works")
	}
	fresh := filepath.Join(t.TempDir(), "none.yaml")
	if _, err := MakeToken(fresh, "x", []string{"everything"}, configs.Scopes(), false); err == nil || !os.IsNotExist(func() error { _, e := os.Stat(fresh); return e }()) {
		t.Error("a refused first token left a file", err)
	}
}
