package strict

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

type settings struct {
	Name   string        `yaml:"name"`
	Wait   time.Duration `yaml:"wait"`
	Most   int           `yaml:"most"`
	Hosts  []string      `yaml:"hosts"`
	Server server        `yaml:"server"`
	Pair   pair          `yaml:"pair"`
}

type server struct {
	Port uint64 `yaml:"port"`
	TLS  `yaml:",inline"`
}

type TLS struct {
	On bool `yaml:"tls"`
}

// pair is a Mapping whose keys are not fields.
type pair struct{ sum int }

func (pair) MemberKeys() []string { return []string{"left", "right"} }

func (p *pair) ReadMembers(m *Members) {
	m.Each(func(key string, read func(reflect.Value)) {
		var n int
		read(reflect.ValueOf(&n).Elem())
		if p.sum += n; n < 0 {
			m.Fault(key, "want 0 or more")
		}
	})
}

func read(t *testing.T, text string, env ...string) (settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "some.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := settings{Name: "default", Most: 7}
	source := Source{Prefix: "SOME_", Foreign: func(name string) bool { return name == "SOME_OTHER" }, Old: map[string]string{"MOST": "most"}}
	err := source.Read(file, env, &s)
	return s, err
}

func TestFileThenEnvironment(t *testing.T) {
	got, err := read(t, "wait: 3s\nserver: {port: 1e3, tls: true}\nhosts: [a]\npair: {left: 3, right: 4}\n",
		"SOME_SERVER_PORT=80", "SOME_HOSTS=b, c", "MOST=1", "SOME_OTHER=x", "UNRELATED=x")
	want := settings{Name: "default", Wait: 3 * time.Second, Most: 1, Hosts: []string{"b", "c"}, Server: server{80, TLS{true}}, Pair: pair{7}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if got, err := read(t, "", "SOME_MOST=2", "MOST=1"); err != nil || got.Most != 2 {
		t.Errorf("the old name and the new one: %+v, %v", got, err)
	}
}

// All faults are reported at once, and the values that could be read are set.
func TestFaultsNameTheirPlace(t *testing.T) {
	got, err := read(t, "nane: x\nwait: 3\nserver: {port: -1}\nmost: 5\nmost: 6\npair: {left: 1, middle: 2, right: -2}\nhosts:\n", "SOME_MOSTT=1", "SOME_WAIT=soon")
	if err == nil || got.Most != 5 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, want := range []string{
		"some.yaml:1: nane: unknown key; did you mean name?", `some.yaml:2: wait: "3": want a time with its unit`, `some.yaml:3: server.port: "-1": want a whole number`,
		"some.yaml:5: most: key appears twice, first in line 4", "some.yaml:6: pair.middle: unknown key; known: left, right", "some.yaml:6: pair.right: want 0 or more",
		"some.yaml:7: hosts: no value: want a list", "SOME_MOSTT: unknown variable; did you mean SOME_MOST?", `SOME_WAIT: "soon": want a time`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if n := strings.Count(err.Error(), "\n") + 1; n != 9 {
		t.Errorf("%d faults, want 9:\n%v", n, err)
	}
}

func TestOneDocument(t *testing.T) {
	for text, want := range map[string]string{"name: a\n---\nname: b\n": "some.yaml:2: second document: want one", "name: [\n": "not YAML"} {
		if _, err := read(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("name: a\npair: {left: 1}\nserver: &a {port: 1, tls: true}\n"))
	f.Add([]byte("server: &a {port: *a}\n"))
	f.Add([]byte("? [a]\n: {b: c}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s settings
		if err := Decode("f", data, &s); err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("a fault without its place: %v", err)
		}
	})
}
