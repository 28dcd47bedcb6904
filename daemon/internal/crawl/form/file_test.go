package form

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func readFile(t *testing.T, text string) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.WriteFile(filepath.Join(filepath.Dir(path), "pw"), []byte("s e\ncret\r\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return Read(path, func(name string) (string, bool) { return "from env", name == "THERE" })
}

func TestReadValues(t *testing.T) {
	t.Parallel()
	f, err := readFile(t, `
page: https://a.example/
cookies: jar
fields:
  text: a text
  number: 007
  date: 2026-11-23
  many: [1, two, {env: THERE}]
  yes: true
  file: {file: pw}
  upload: [{upload: pw}]
  none: []
extra: {token: x, list: [1, 2]}
`)
	if err != nil {
		t.Fatal(err)
	}
	step := f.Steps[0]
	got := map[string]Value{}
	for _, field := range step.fields {
		got[field.name] = field.value
	}
	for name, want := range map[string]string{"text": "a text", "number": "007", "date": "2026-11-23", "many": "1|two|from env", "file": "s e\ncret", "none": ""} {
		if text := strings.Join(got[name].Texts, "|"); text != want {
			t.Errorf("%s: %q, want %q", name, text, want)
		}
	}
	if v := got["yes"].Checked; v == nil || !*v {
		t.Errorf("yes: %v", v)
	}
	if v := got["upload"].Uploads; len(v) != 1 || v[0].Name != "pw" || string(v[0].Bytes) != "s e\ncret\r\n" {
		t.Errorf("upload: %+v", v)
	}
	if len(step.sending) != 2 || strings.Join(step.sending[1].Texts, "|") != "1|2" {
		t.Errorf("extra: %+v", step.sending)
	}
	if !strings.HasSuffix(f.CookiesPath(), string(filepath.Separator)+"jar") || f.Checked() == nil {
		t.Errorf("cookies %q, checked %v", f.CookiesPath(), f.Checked())
	}
}

func TestAvoided(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": true, "avoid: [BYE]\n": false, "avoid: []\n": false} {
		f, err := readFile(t, "page: https://a.example/\n"+text)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Avoided(address(t, "https://a.example/x?do=LogOut")); got != want {
			t.Errorf("%q: logout %v, want %v", text, got, want)
		}
		if got, want := f.Avoided(address(t, "https://a.example/bye")), strings.Contains(text, "BYE"); got != want {
			t.Errorf("%q: bye %v, want %v", text, got, want)
		}
	}
}

// Every fault names file, line and key, and none shows a value.
func TestReadFaults(t *testing.T) {
	t.Parallel()
	const good = "page: https://a.example/\n"
	for text, want := range map[string]string{
		"":                             "f.yaml: it is empty: want page, or steps",
		"steps: []\n":                  "f.yaml:1: steps: want one or more",
		"check: {text: x}\n":           "f.yaml:1: page: it is missing",
		"page: ftp://x/\n":             `f.yaml:1: page: the scheme is "ftp"`,
		"page: [secret]\n":             "f.yaml:1: page: a list: want a text",
		good + "pages: secret\n":       "f.yaml:2: pages: unknown key; did you mean page?",
		good + "steps: [{page: /x}]\n": "f.yaml:1: page: stands beside steps",
		"steps: [{page: /x}]\n":        "f.yaml:1: steps[0].page: no URI",
		"steps:\n- {page: 'http://a/'}\n- {submit: x}\n": "f.yaml:3: steps[1].page: it is missing",
		good + "fields: secret\n":                        "f.yaml:2: fields: want names and values",
		good + "fields: {a: 1, a: secret}\n":             "f.yaml:2: fields.a: key appears twice, first in line 2",
		good + "fields: {a: }\n":                         "f.yaml:2: fields.a: no value",
		good + "fields:\n  a: [[secret]]\n":              "f.yaml:3: fields.a[0]: want a text",
		good + "fields: {a: {files: secret}}\n":          "f.yaml:2: fields.a.files: unknown key; did you mean file?",
		good + "fields: {a: {file: pw, env: THERE}}\n":   "f.yaml:2: fields.a: want one of file, env and upload",
		good + "fields: {a: {}}\n":                       "f.yaml:2: fields.a: want one of file, env and upload",
		good + "fields: {a: {env: NOT}}\n":               "f.yaml:2: fields.a: the variable NOT is not set",
		good + "fields: {a: {file: none}}\n":             "f.yaml:2: fields.a: open ",
		good + "fields: {a: {upload: none}}\n":           "f.yaml:2: fields.a: open ",
		good + "extra: {a: true}\n":                      "f.yaml:2: extra.a: want a text",
		good + "encoding: klingon\n":                     `encoding: "klingon": want a name that browsers know`,
		good + "avoid: [x, '']\n":                        "f.yaml:2: avoid[1]: it is empty",
		good + "form: {index: -1}\n":                     "form.index: -1: want 1 or more",
		good + "form: {index: first}\n":                  "f.yaml:2: form.index: ",
	} {
		_, err := readFile(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
