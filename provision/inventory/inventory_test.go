package inventory

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs"
)

// TestExampleIsWhole loads the shipped example and expects every field in it.
func TestExampleIsWhole(t *testing.T) {
	t.Parallel()
	i, err := parse("configs/hosts.yaml", configs.ExampleHosts)
	if err != nil {
		t.Fatal(err)
	}
	i.complete()
	if err := i.Validate(); err != nil {
		t.Errorf("example is not valid: %v", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(configs.ExampleHosts, &doc); err != nil {
		t.Fatal(err)
	}
	for _, key := range missing(doc.Content[0], reflect.TypeFor[Inventory](), "") {
		t.Errorf("example lacks %s", key)
	}
	cut := strings.Replace(string(configs.ExampleHosts), "  keep: 5\n", "", 1)
	cut = strings.Replace(cut, "    sudo_password_env: WEB2_SUDO_PASSWORD\n", "", 1)
	if err := yaml.Unmarshal([]byte(cut), &doc); err != nil {
		t.Fatal(err)
	}
	got := missing(doc.Content[0], reflect.TypeFor[Inventory](), "")
	if want := []string{"hosts[].sudo_password_env", "release.keep"}; !slices.Equal(got, want) {
		t.Errorf("missing in a cut example: got %q, want %q", got, want)
	}
}

// missing lists the keys of t that n does not have; in a list, one element must have all of them.
func missing(n *yaml.Node, t reflect.Type, path string) []string {
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && n.Kind == yaml.SequenceNode {
		var least []string
		for i, item := range n.Content {
			if m := missing(item, t.Elem(), path+"[]"); i == 0 || len(m) < len(least) {
				least = m
			}
		}
		return least
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[Hop]() {
		return nil
	}
	var lacks []string
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		switch {
		case !f.IsExported():
			continue
		case key == ",inline":
			lacks = append(lacks, missing(n, f.Type, path)...)
			continue
		}
		full := strings.TrimPrefix(path+"."+key, ".")
		found := false
		for j := 0; j+1 < len(n.Content); j += 2 {
			if n.Content[j].Value == key {
				found = true
				lacks = append(lacks, missing(n.Content[j+1], f.Type, full)...)
			}
		}
		if !found {
			lacks = append(lacks, full)
		}
	}
	return lacks
}

// TestExampleTellsDefaults expects the values in the general part of the example to be those of
// Default, as its comments say.
func TestExampleTellsDefaults(t *testing.T) {
	t.Parallel()
	got, err := parse("configs/hosts.yaml", configs.ExampleHosts)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Defaults, want.Hosts, want.Settings, want.Downloader.Settings, want.path, want.from = got.Defaults, got.Hosts, got.Settings, got.Downloader.Settings, got.path, got.from
	// An empty list means the same as none.
	want.Redis.Bind, want.MySQL.Bind, want.MongoDB.Bind, want.MongoDB.Repository.Packages = []string{}, []string{}, []string{}, []string{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	i, err := parse(filepath.Join(dir, "hosts.yaml"), []byte(`
defaults: {user: deploy, port: 2222, bastion: "gate@b1:22,b2", known_hosts: kh, sudo_password_env: SUDO}
hosts:
  - name: a
    address: 192.0.2.1
    settings: {log: {level: debug}}
  - address: b.example
    roles: [redis]
    user: root
    port: 22
    bastion: none
  - name: c
    bastion: [x, "y@[::1]:2"]
tokens_file: sub/tokens.yaml
fleet: {health_timeout: 30s}
redis: {maxmemory: 4GB}
`))
	if err != nil {
		t.Fatal(err)
	}
	i.complete()
	if err := i.Validate(); err != nil {
		t.Fatal(err)
	}
	a, b, c := i.Hosts[0], i.Hosts[1], i.Hosts[2]
	if a.User != "deploy" || a.Port != 2222 || a.Bastion.String() != "gate@b1:22,b2" || !a.Has(RoleFilter) || a.KnownHosts != filepath.Join(dir, "kh") || a.SudoPasswordEnv != "SUDO" {
		t.Errorf("a: got %+v", a)
	}
	if a.Settings == nil || a.Settings.Kind != yaml.MappingNode || b.Settings != nil {
		t.Errorf("settings: got %+v and %+v", a.Settings, b.Settings)
	}
	if b.Name != "b.example" || b.User != "root" || b.Port != 22 || !b.Bastion.None() || b.Has(RoleFilter) {
		t.Errorf("b: got %+v", b)
	}
	if c.Address != "c" || len(c.Bastion) != 2 || c.Bastion[1] != (Hop{"y", "::1", 2}) {
		t.Errorf("c: got %+v", c)
	}
	if i.TokensFile != filepath.Join(dir, "sub", "tokens.yaml") || i.Release.Keep != 5 || i.Fleet.Canary != 1 {
		t.Errorf("got %+v", i)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"host: []\n", "h.yaml:1: host: unknown key; did you mean hosts?"},
		{"hosts:\n  - name: a\n    adress: b\n", "h.yaml:3: hosts[0].adress: unknown key; did you mean address?"},
		{"hosts:\n  - name: a\n    name: b\n", "h.yaml:3: hosts[0].name: key appears twice, first in line 2"},
		{"hosts:\n  - name: a\n    settings: {redis: {adrs: []}}\n", "h.yaml:3: hosts[0].settings.redis.adrs: unknown key"},
		{"settings: {limits: {items: many}}\n", `h.yaml:1: settings.limits.items: "many": want a whole number`},
		{"settings: [1]\n", "h.yaml:1: settings: a list: want keys and values"},
		{"hosts:\n  - name: a\n    bastion: 'x@y@z:99999'\n", `h.yaml:3: hosts[0].bastion: "x@y@z:99999": want user@host:port`},
		{"hosts:\n  - name: a\n    port: ssh\n", `h.yaml:3: hosts[0].port: "ssh": want a whole number`},
		{"hosts: 3\n", "h.yaml:1: hosts: a number: want a list"},
		{"hosts: [\n", "h.yaml:2: not YAML"},
		{"mongodb: {version: 8.0}\n", "h.yaml:1: mongodb.version: a number: want a text, \"\" for none; put it in quotes if it is one"},
		{"", "h.yaml: hosts: none: want one at least"},
		{"hosts: [{name: a}, {name: a, address: b}]\n", `h.yaml: hosts[1].name: "a": is that of hosts[0]`},
		{"hosts: [{name: a, address: x}, {name: b, address: x}]\n", `h.yaml: hosts[1].address: x: is that of hosts[0]`},
		{"hosts: [{name: a, roles: [redis]}, {name: b, roles: [redis]}]\n", "a and b have the role redis: want one"},
		{"hosts: [{name: a, roles: [web]}]\n", `hosts[0].roles[0]: "web": want filter or redis or mysql or mongodb`},
		{"hosts: [{name: a, roles: []}]\n", "hosts[0].roles: none: want filter, redis, mysql, mongodb"},
		{"hosts: [{name: a b}]\n", `hosts[0].name: "a b": want letters`},
		{"hosts: [{name: a, address: root@x}]\n", `hosts[0].address: "root@x": want a host name or an IP address`},
		{"hosts: [{address: -oProxyCommand=x}]\n", "hosts[0].address"},
		{"hosts: [{}]\n", "hosts[0].name: want a name or an address"},
		{"hosts: [{name: a, port: 70000}]\n", "hosts[0].port: 70000: want 0 to 65535"},
		{"hosts: [{name: a, host_keys: never}]\n", `hosts[0].host_keys: "never": want`},
		{"hosts: [{name: a, roles: [mongodb]}]\nmongodb: {uri: mongodb://x}\n", "host a has the role mongodb: want only one of the two"},
		{"hosts: [{name: a}]\nmongodb: {uri: http://x}\n", "mongodb.uri:"},
		{"hosts: [{name: a}]\nmongodb: {repository: {url: https://m/x}}\n", "mongodb.repository.suite"},
		{"hosts: [{name: a}]\nservice: {user: root}\n", "service.user: root: want an account that may do less"},
		{"hosts: [{name: a}]\ndownloader: {service: {user: root}}\n", "downloader.service.user: root: want an account that may do less"},
		{"downloader: {settings: {worker: {concurency: 1}}}\n", "h.yaml:1: downloader.settings.worker.concurency: unknown key; did you mean concurrency?"},
		{"hosts:\n  - name: a\n    downloader: {settings: {dispatch: {every: soon}}}\n", `h.yaml:3: hosts[0].downloader.settings.dispatch.every: "soon": want a time`},
		{"hosts: [{name: a}]\nschedule: {when: monthly}\n", "schedule.when"},
		{"hosts: [{name: a}]\nschedule: {when: 0 24 1 * *}\n", `schedule.when "0 24 1 * *": hour: "24": want 0 to 23`},
		{"hosts: [{name: a}]\nschedule: {kind: timer, when: 0 0 1 * 1}\n", "a timer cannot have both a day and a weekday"},
		{"hosts: [{name: a}]\nfleet: {batch: 0%}\n", "fleet.batch"},
		{"hosts: [{name: a}]\nrelease: {keep: 1}\n", "release.keep: 1: want 2 or more"},
		{"hosts: [{name: a}]\nredis: {maxmemory: lots}\n", "redis.maxmemory"},
		{"hosts: [{name: a}]\nredis: {maxmemory: 0}\n", "redis.maxmemory"},
		{"hosts: [{name: a}]\nredis: {maxmemory: 4 gb}\n", "redis.maxmemory"},
		{"hosts: [{name: a}]\nredis: {appendfsync: no}\n", "redis.appendfsync"},
		{"hosts: [{name: a}]\nredis: {tls: true, tls_port: 6379}\n", "redis.tls_port: 6379: is redis.port"},
		{"hosts: [{name: a}]\nredis: {bind: ['::']}\n", `redis.bind[0]: "::": that is every address`},
		{"hosts: [{name: a}]\nmysql: {port: 70000}\n", "mysql.port: 70000"},
		{"hosts: [{name: a}]\nmongodb: {flavor: postgres}\n", "mongodb.flavor"},
		{"hosts: [{name: a}]\nredis: {bind: [10.0.0.1, 0.0.0.0]}\n", `redis.bind[1]: "0.0.0.0": that is every address`},
		{"hosts: [{name: a}]\nmysql: {bind: [db.internal]}\n", `mysql.bind[0]: "db.internal": want an IP address`},
		{"hosts: [{name: a}]\nmongodb: {unit: 'a:b'}\n", "mongodb.unit"},
		{"hosts: [{name: a}]\nservice: {user: a23456789012345678901234567890ab}\n", "service.user"},
		{"hosts: [{name: a}]\npackages: {proxy: 'http://u:secret@p:1'}\n", "packages.proxy: it holds a user"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "h.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Open(Source{Path: path, Getenv: func(string) string { return "" }})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q:\ngot  %v\nwant %s in it", c.text, err, c.want)
		}
	}
}

// An unknown key hides no other fault.
func TestAllFaultsShowAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "h.yaml")
	const text = `hosts: [{name: a, adress: b, port: 70000, settings: {stor: redis}}]
fleet: {canry: 1, batch: 0%}
release: {keep: many}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Open(Source{Path: path, Getenv: func(string) string { return "" }})
	for _, want := range []string{"hosts[0].adress: unknown key", "hosts[0].port: 70000", "hosts[0].settings.stor: unknown key", "fleet.canry: unknown key", "fleet.batch", `release.keep: "many"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}

// TestPasswordsAreNotTold puts passwords where names belong.
func TestPasswordsAreNotTold(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"hosts: [{name: a, sudo_password_env: 'hunter2!'}]",
		"defaults: {password_env: 'hunter2!'}\nhosts: [{name: a}]",
		"hosts: [{name: a, bastion: 'root:hunter2!@b'}]",
		"hosts: [{name: a}]\nmongodb: {uri: 'mongodb://u:hunter2!@/%%'}",
		"hosts: [{name: a}]\nmongodb: {uri_env: 'mongodb://u:hunter2!@h'}",
		"hosts: [{name: a}]\npackages: {proxy: 'http://u:hunter2!@p:1'}",
	} {
		i, err := parse("h.yaml", []byte(text))
		if err == nil {
			i.complete()
			err = i.Validate()
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s:\ngot %v, want an error without the password", text, err)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := map[string]string{}
	open := func(path string) (*Inventory, string, error) {
		return Open(Source{Path: path, Dir: dir, Getenv: func(name string) string { return env[name] }})
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := func(i *Inventory) string {
		var all []string
		for _, h := range i.Hosts {
			all = append(all, h.Name)
		}
		return strings.Join(all, " ")
	}

	if _, _, err := open(""); err == nil || !strings.Contains(err.Error(), "hint: cp configs/hosts.example.yaml configs/hosts.yaml") || !strings.Contains(err.Error(), "sandbox:up") {
		t.Errorf("nothing there: got %v", err)
	}
	env[HostsEnv] = "root@192.0.2.1:2200, [2001:db8::1]:22,web"
	i, notice, err := open("")
	if err != nil || notice != "" || i.Path() != "" || i.From() != HostsEnv || names(i) != "192.0.2.1 2001:db8::1 web" {
		t.Fatalf("variable: got %+v, %q, %v", i, notice, err)
	}
	if h := i.Hosts[0]; h.User != "root" || h.Port != 2200 || len(h.Roles) != 3 {
		t.Errorf("first: got %+v", h)
	}
	if h := i.Hosts[1]; h.User != "" || h.Port != 22 || len(h.Roles) != 1 || !h.Has(RoleFilter) {
		t.Errorf("second: got %+v", h)
	}
	env[HostsEnv] = ""

	write(".sandbox/hosts.yaml", "hosts: [{name: box}]\n")
	if i, notice, err = open(""); err != nil || names(i) != "box" || !strings.Contains(notice, ".sandbox/hosts.yaml") {
		t.Errorf("sandbox: got %v, %q, %v", i, notice, err)
	}
	write("configs/hosts.yaml", "defaults: {user: deploy}\nhosts: [{name: real}]\n")
	if i, notice, err = open(""); err != nil || names(i) != "real" || notice != "" {
		t.Errorf("default: got %v, %q, %v", i, notice, err)
	}
	env[HostsEnv] = "a"
	if i, notice, err = open(""); err != nil || names(i) != "a" || i.Hosts[0].User != "deploy" || !strings.Contains(notice, "takes the place") {
		t.Errorf("variable over file: got %v, %q, %v", i, notice, err)
	}
	write("other.yaml", "hosts: [{name: other}]\n")
	if i, _, err = open("other.yaml"); err != nil || names(i) != "other" {
		t.Errorf("flag: got %v, %v", i, err)
	}
	env[HostsEnv], env[PathEnv] = "", "other.yaml"
	if i, _, err = open(""); err != nil || names(i) != "other" {
		t.Errorf("named by the variable: got %v, %v", i, err)
	}
	if _, _, err = open("gone.yaml"); err == nil || !strings.Contains(err.Error(), "hint: cp ") {
		t.Errorf("gone: got %v", err)
	}
	env[PathEnv], env[HostsEnv] = "", "a:b:c,root:pw@x"
	if _, _, err = open(""); err == nil || !strings.Contains(err.Error(), `URIFILTER_HOSTS: "a:b:c"`) || strings.Contains(err.Error(), "pw") {
		t.Errorf("bad variable: got %v", err)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	i, err := parse("h.yaml", []byte("hosts: [{name: web1}, {name: web2, address: 192.0.2.2}, {name: db, roles: [redis, mongodb]}]"))
	if err != nil {
		t.Fatal(err)
	}
	i.complete()
	for text, want := range map[string]string{
		"": "web1 web2 db", "all": "web1 web2 db", "db,web1": "web1 db", "web*": "web1 web2", "web?, db": "web1 web2 db",
		"role:filter": "web1 web2", "role:redis": "db", "192.0.2.2": "web2", "web1,web1": "web1",
	} {
		hosts, err := i.Choose(text)
		var got []string
		for _, h := range hosts {
			got = append(got, h.Name)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"web3": "hint: it has web1, web2, db", "x*": "no such host", "role:web": "there is no such role",
		"[": "want a name or a pattern", ",": "want names of hosts", "web1,web9": `"web9"`,
	} {
		if _, err := i.Choose(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
}

func TestParseHop(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Hop{
		"h": {"", "h", 0}, "u@h": {"u", "h", 0}, "u@h:22": {"u", "h", 22}, "[::1]": {"", "::1", 0}, "::1": {"", "::1", 0},
		"u@[fe80::1%eth0]:2": {"u", "fe80::1%eth0", 2}, "ssh://u@h:1": {"u", "h", 1}, `D\u@h`: {`D\u`, "h", 0}, "u@dom@h": {"u@dom", "h", 0},
	} {
		got, err := ParseHop(text)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
			continue
		}
		if back, err := ParseHop(got.String()); err != nil || back != want {
			t.Errorf("%q: written as %q, read back as %+v, %v", text, got.String(), back, err)
		}
	}
	for _, text := range []string{"", "@h", "u@", "h:", "h:0", "h:65536", "h:ssh", "[::1", "[h]:1", "[::1]x", "a b", "-h", "h/x", "u@-oX", "a:1:2"} {
		if got, err := ParseHop(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

func FuzzParseHop(f *testing.F) {
	f.Add("u@h:22")
	f.Add("[::1]:2")
	f.Add("fe80::1%eth0")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHop(text)
		if err != nil {
			return
		}
		if strings.HasPrefix(h.Host, "-") || strings.HasPrefix(h.User, "-") || strings.ContainsAny(h.Host+h.User, " '\"`$;&|\n\x00") {
			t.Errorf("%q: got %+v, which a shell would not take as it stands", text, h)
		}
		if back, err := ParseHop(h.String()); err != nil || back != h {
			t.Errorf("%q: %+v is written as %q, read back as %+v, %v", text, h, h.String(), back, err)
		}
	})
}
