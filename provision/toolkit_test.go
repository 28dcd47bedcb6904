package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/service"
)

// opened returns a toolkit whose operator has an inventory, and other files beside it.
func opened(t *testing.T, inventory string, files map[string]string, environ map[string]string) (*Toolkit, *os.File) {
	t.Helper()
	toolkit, out, err := tryOpen(t, inventory, files, environ)
	if err != nil {
		t.Fatal(err)
	}
	return toolkit, out
}

func tryOpen(t *testing.T, inventory string, files map[string]string, environ map[string]string) (*Toolkit, *os.File, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "configs"), 0o755); err != nil {
		t.Fatal(err)
	}
	files2 := map[string]string{"hosts.yaml": inventory}
	for name, text := range files {
		files2[name] = text
	}
	for name, text := range files2 {
		if err := os.WriteFile(filepath.Join(dir, "configs", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	toolkit, err := Open(Options{Dir: dir, Stdin: in, Stdout: out, Stderr: out, Getenv: func(name string) string { return environ[name] }})
	if err == nil {
		t.Cleanup(func() { toolkit.Close() })
	}
	return toolkit, out, err
}

// text returns what was written to the file.
func text(t *testing.T, f *os.File) string {
	t.Helper()
	data, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const fleetOfTwo = `
hosts:
  - {name: one, address: 10.0.0.1, roles: [filter, redis, mongodb]}
  - {name: two, address: 10.0.0.2, settings: {log: {level: warn}}}
settings: {uri_num_scale: 1000}
settings_file: base.yaml
mongodb: {flavor: ferretdb}
`

// The downloader's settings are in a section of their own, its tokens are in a file of their own,
// and a host may run both programs.
func TestSettingsOfTheDownloader(t *testing.T) {
	t.Parallel()
	const inventory = `
hosts:
  - {name: both, address: 10.0.0.1, roles: [filter, downloader], downloader: {settings: {worker: {concurrency: 7}}}}
  - {name: down, address: 10.0.0.2, roles: [downloader], settings: {log: {level: warn}}}
settings: {uri_num_scale: 1000}
downloader: {settings: {listen: "0.0.0.0:8001", worker: {concurrency: 5}}, settings_file: down.yaml}
`
	files := map[string]string{"down.yaml": "user_agent: news (+https://example.com)\nworker: {concurrency: 3}\n"}
	toolkit, _ := opened(t, inventory, files, nil)
	err := toolkit.SettingsCheck(t.Context())
	if err == nil || !strings.Contains(err.Error(), "other machines could call without a token") ||
		!strings.Contains(err.Error(), "hint: go tool mage settings:token -name=crawler -scopes=submit -program=uridownloader makes a token") {
		t.Errorf("without tokens: %v", err)
	}
	files["tokens.downloader.yaml"] = "- {name: news, token: abcdefghijklmnopqrst, scopes: [submit]}\n"
	toolkit, out := opened(t, inventory, files, nil)
	if err := toolkit.SettingsCheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# both:/etc/urifilter/urifilter.yaml\nuri_num_scale: 1000\n",
		"# both:/etc/uridownloader/uridownloader.yaml\nuser_agent: news (+https://example.com)\nworker:\n  concurrency: 7\nlisten: \"0.0.0.0:8001\"\nauth:\n  tokens_file: /etc/uridownloader/tokens.yaml\n",
		"# down:/etc/uridownloader/uridownloader.yaml\nuser_agent: news (+https://example.com)\nworker:\n  concurrency: 5\n",
	} {
		if !strings.Contains(text(t, out), want) {
			t.Errorf("want\n%s\nin\n%s", want, text(t, out))
		}
	}
	if strings.Contains(text(t, out), "# down:/etc/urifilter") {
		t.Errorf("settings of the filter for a host that does not run it:\n%s", text(t, out))
	}
	files["tokens.downloader.yaml"] = "- {name: news, token: abcdefghijklmnopqrst, scopes: [filter]}\n"
	if _, _, err := tryOpen(t, inventory, files, nil); err == nil || !strings.Contains(err.Error(), `tokens.downloader.yaml: token 1 (news): scope: "filter": want read or submit or admin`) {
		t.Errorf("a scope of the filter: %v", err)
	}
	missing := strings.Replace(inventory, "\ndownloader: {settings:", "\ndownloader: {tokens_file: t.yaml, settings:", 1)
	if _, _, err := tryOpen(t, missing, map[string]string{"down.yaml": ""}, nil); err == nil || !strings.Contains(err.Error(), "downloader.tokens_file: ") || !strings.Contains(err.Error(), "-program=uridownloader makes it") {
		t.Errorf("a tokens file that does not exist: %v", err)
	}
}

// A master and its workers share one database and query one filter; the roles of a host determine
// which of the commands is its daemon.
func TestSettingsOfMasterAndWorkers(t *testing.T) {
	t.Parallel()
	const inventory = `
hosts:
  - {name: hub, address: 10.0.0.1, roles: [filter, mongodb, master]}
  - {name: w1, address: 10.0.0.2, roles: [worker]}
  - {name: w2, address: 10.0.0.3, roles: [worker], downloader: {settings: {worker: {listen: "127.0.0.1:9002"}}}}
settings: {listen: "0.0.0.0:8000"}
downloader: {settings: {listen: "0.0.0.0:8001"}}
mongodb: {flavor: ferretdb}
`
	files := map[string]string{
		"tokens.yaml":            "- {name: crawler, token: abcdefghijklmnopqrst, scopes: [filter]}\n",
		"tokens.downloader.yaml": "- {name: news, token: abcdefghijklmnopqrst, scopes: [submit]}\n",
	}
	toolkit, out := opened(t, inventory, files, nil)
	if err := toolkit.SettingsCheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# hub:/etc/urifilter/urifilter.yaml\nlisten: \"0.0.0.0:8000\"\nmongodb:\n  uri: ",
		"# hub:/etc/uridownloader/uridownloader.yaml\nlisten: \"0.0.0.0:8001\"\nstore: mongodb\nmongodb:\n  uri: ",
		"# w1:/etc/uridownloader/uridownloader.yaml\nlisten: \"0.0.0.0:8001\"\nstore: mongodb\nmongodb:\n  uri: ",
		"filter:\n  url: http://127.0.0.1:8000\n  token_file: /etc/uridownloader/filter.token\n",
		"filter:\n  url: http://10.0.0.1:8000\n  token_file: /etc/uridownloader/filter.token\n",
	} {
		if !strings.Contains(text(t, out), want) {
			t.Errorf("want\n%s\nin\n%s", want, text(t, out))
		}
	}
	r, err := toolkit.newRun(true)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []struct{ run, url string }{{"master --dispatch", "http://127.0.0.1:8001"}, {"worker", "http://127.0.0.1:8002"}, {"worker", "http://127.0.0.1:9002"}} {
		h := toolkit.hosts[n]
		p := r.site.On(h, toolkit.o.Programs[1])
		values, err := r.site.Settings(t.Context(), h, p, true)
		if err != nil {
			t.Fatal(err)
		}
		if told, err := values.Read(p); err != nil || p.Run != want.run || told.URL != want.url {
			t.Errorf("%s: %q, %s, %v; want %+v", h.Name, p.Run, told.URL, err, want)
		}
	}

	for change, want := range map[[2]string]string{
		{"settings: {listen: \"0.0.0.0:8000\"}\n", ""}:                                                  "filter.url: the filter of host hub listens on 127.0.0.1:8000 alone, where host w1 cannot ask it\nhint: ",
		{"[filter, mongodb, master]", "[filter, master]"}:                                               "store: \"embedded\": want mongodb, where a master and its workers find each other's tasks\nhint: give a host the role mongodb",
		{"[filter, mongodb, master]", "[mongodb, master]"}:                                              "filter.url: \"\": want the filter that a master and its workers ask\nhint: give a host the role filter",
		{"roles: [worker]}", "roles: [worker, downloader]}"}:                                            "hosts[1].roles: downloader is all of it in one process",
		{"roles: [worker]}", "roles: [worker, master]}"}:                                                "hub and w1 have the role master: want one",
		{"name: w1, address: 10.0.0.2, roles: [worker]", "name: w1, address: 10.0.0.2, roles: [slave]"}: "want filter or downloader or master or worker or redis or mysql or mongodb",
	} {
		toolkit, _, err := tryOpen(t, strings.Replace(inventory, change[0], change[1], 1), files, nil)
		if err == nil {
			err = toolkit.SettingsCheck(t.Context())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", change[1], err, want)
		}
	}
}

// A given binary of one program is not pushed in place of another program.
func TestOneBinaryForTwoPrograms(t *testing.T) {
	t.Parallel()
	const inventory = "hosts: [{name: a, roles: [filter, downloader]}, {name: b, roles: [downloader]}]\n"
	for given, want := range map[string]string{
		"dist/urifilter-linux-{arch}": "-binary=dist/urifilter-linux-{arch}: that is one program, and the hosts run urifilter and uridownloader\nhint: -binary={program}-linux-{arch}, or -hosts=role:filter",
		"none/{program}-{arch}":       "none/uridownloader-",
	} {
		toolkit, _ := opened(t, inventory, nil, nil)
		toolkit.o.Binary = given
		if err := toolkit.Deploy(t.Context()); fleet.Code(err) != fleet.CodeUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: code %d, %v", given, fleet.Code(err), err)
		}
	}
}

// Settings come from four places; what follows from roles is filled in from the point of view of
// each host.
func TestSettingsOfRoles(t *testing.T) {
	t.Parallel()
	toolkit, out := opened(t, fleetOfTwo, map[string]string{
		"base.yaml":   "uri_num_scale: 5\ndurability: interval\n",
		"tokens.yaml": "- {name: a, token: abcdefghijklmnopqrst, scopes: [read]}\n",
	}, nil)
	if err := toolkit.SettingsCheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `# one:/etc/urifilter/urifilter.yaml
uri_num_scale: 1000
durability: interval
store: redis
redis:
  addrs:
    - 127.0.0.1:6379
  password_file: /etc/urifilter/redis.password
mongodb:
  uri: mongodb://10.0.0.1:27017/
auth:
  tokens_file: /etc/urifilter/tokens.yaml

# two:/etc/urifilter/urifilter.yaml
uri_num_scale: 1000
durability: interval
log:
  level: warn
store: redis
redis:
  addrs:
    - 10.0.0.1:6379
  password_file: /etc/urifilter/redis.password
mongodb:
  uri: mongodb://10.0.0.1:27017/
auth:
  tokens_file: /etc/urifilter/tokens.yaml
`
	if got := text(t, out); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What people set themselves takes precedence over what follows from roles, and passwords are not
// shown.
func TestSettingsThatPeopleGive(t *testing.T) {
	t.Parallel()
	toolkit, out := opened(t, `
hosts:
  - {name: one, address: 10.0.0.1, roles: [filter, redis]}
  - {name: two, address: 10.0.0.2, settings: {store: embedded}}
mongodb: {uri_env: ARCHIVE}
`, nil, map[string]string{"ARCHIVE": "mongodb://u:S3cretOfArchive@db.example.com:27017/"})
	if err := toolkit.SettingsCheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := text(t, out)
	_, two, _ := strings.Cut(got, "# two:")
	if strings.Contains(two, "redis") || !strings.Contains(two, "store: embedded") || !strings.Contains(two, "@db.example.com:27017/") {
		t.Errorf("host two:\n%s", two)
	}
	if strings.Contains(got, "S3cret") {
		t.Errorf("a password is shown:\n%s", got)
	}
}

// With tls, the daemons connect to Redis at its other port, and to both servers with
// certificates; a host that keeps its items itself has a certificate for the archive alone.
func TestSettingsOfTLS(t *testing.T) {
	t.Parallel()
	toolkit, out := opened(t, `
hosts:
  - {name: one, address: 10.0.0.1, roles: [filter, redis, mongodb]}
  - {name: two, address: 10.0.0.2}
  - {name: three, address: 10.0.0.3, settings: {store: embedded}}
redis: {tls: true}
mongodb: {flavor: ferretdb, tls: true}
`, nil, nil)
	if err := toolkit.SettingsCheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	const certificates = "  tls: true\n  tls_ca_file: /etc/urifilter/tls.ca.pem\n  tls_cert_file: /etc/urifilter/tls.pem\n  tls_key_file: /etc/urifilter/tls.pem\n"
	hosts := strings.Split(text(t, out), "# ")
	for i, want := range []int{0, 2, 2, 1} {
		if i < len(hosts) && strings.Count(hosts[i], certificates) != want {
			t.Errorf("want certificates for %d servers in\n%s", want, hosts[i])
		}
	}
	if got := strings.Join(hosts, "# "); len(hosts) != 4 || !strings.Contains(got, "- 10.0.0.1:6380") || strings.Contains(got, ":6379") {
		t.Errorf("addresses:\n%s", got)
	}
}

// Hosts connect to the MariaDB of the role, unless they name another.
func TestSettingsOfMySQL(t *testing.T) {
	t.Parallel()
	toolkit, out := opened(t, `
hosts:
  - {name: one, address: 10.0.0.1, roles: [filter, mysql]}
  - {name: two, address: 10.0.0.2}
  - {name: three, address: 10.0.0.3, settings: {mysql: {addr: "10.0.0.9:3306"}}}
mysql: {port: 3307}
`, nil, nil)
	if err := toolkit.SettingsCheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	hosts := strings.Split(text(t, out), "# ")
	for i, want := range []string{"", "addr: 127.0.0.1:3307\n  password_file: /etc/urifilter/mysql.password\n", "addr: 10.0.0.1:3307\n  password_file: ", `addr: "10.0.0.9:3306"`} {
		if i >= len(hosts) || !strings.Contains(hosts[i], want) {
			t.Errorf("want %q in host %d of\n%s", want, i, hosts)
		}
	}
	if len(hosts) == 4 && strings.Contains(hosts[3], "password_file") {
		t.Errorf("a host that names another has the password:\n%s", hosts[3])
	}
}

func TestFaultsBeforeAnyHostIsAsked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inventory string
		files     map[string]string
		do        func(*Toolkit, context.Context) error
		want      string
	}{
		"open without tokens": {
			"hosts: [{name: a, address: 10.0.0.1}]\nsettings: {listen: '0.0.0.0:8000'}\n", nil, (*Toolkit).SettingsCheck,
			"host a: listen: \"0.0.0.0:8000\": other machines could call without a token",
		},
		"next step": {
			"hosts: [{name: a, address: 10.0.0.1}]\nsettings: {listen: '0.0.0.0:8000'}\n", nil, (*Toolkit).SettingsCheck,
			"hint: go tool mage settings:token -name=crawler -scopes=filter",
		},
		"whose setting": {
			"hosts: [{name: a, address: 10.0.0.1, settings: {uri_num_scale: 0}}]\n", nil, (*Toolkit).SettingsCheck,
			"settings of host a)",
		},
		"tokens that do not exist": {
			"hosts: [{name: a, address: 10.0.0.1}]\ntokens_file: t.yaml\n", nil, nil, "hint: go tool mage settings:token",
		},
		"a malformed token": {
			"hosts: [{name: a, address: 10.0.0.1}]\n", map[string]string{"tokens.yaml": "- {name: a, token: short, scopes: [read]}\n"}, nil, "secret of 5 characters",
		},
		"a role that nobody has": {
			"hosts: [{name: a, address: 10.0.0.1}]\n", nil, (*Toolkit).InstallRedis, "none of the hosts has the role redis: a",
		},
		"no MariaDB": {
			"hosts: [{name: a, address: 10.0.0.1}]\n", nil, (*Toolkit).InstallMySQL, "none of the hosts has the role mysql: a",
		},
		"two of them": {
			"hosts: [{name: a, address: 10.0.0.1, roles: [mysql]}, {name: b, address: 10.0.0.2, roles: [mysql]}]\n", nil, nil, "a and b have the role mysql: want one",
		},
		"no archive": {
			"hosts: [{name: a, address: 10.0.0.1}]\n", nil, (*Toolkit).BitmapInit, "host a has no archive\nhint: give a host the role mongodb",
		},
		"a name to bind to": {
			"hosts: [{name: a, address: db.example.com, roles: [redis]}, {name: b, address: 10.0.0.2}]\n", nil, (*Toolkit).Deploy,
			"redis.bind: host b reaches a by the name db.example.com, on which no server can listen\nhint: give host a a private_address",
		},
		"a forwarded port": {
			"hosts: [{name: a, address: 127.0.0.1, port: 1, roles: [redis]}, {name: b, address: 127.0.0.1, port: 2}]\nredis: {bind: [10.0.0.1]}\n", nil, (*Toolkit).Deploy,
			"redis.bind: host b would call itself at 127.0.0.1, in place of host a\nhint: give host a a private_address",
		},
		"a private address that is none": {
			"hosts: [{name: a, address: 10.0.0.1, private_address: 127.0.0.1}]\n", nil, nil, "hosts[0].private_address: \"127.0.0.1\": want the IP address",
		},
		"one private address for two": {
			"hosts: [{name: a, address: 10.0.0.1, private_address: 10.9.0.1}, {name: b, address: 10.0.0.2, private_address: 10.9.0.1}]\n", nil, nil, "hosts[1].private_address: 10.9.0.1: is that of hosts[0]",
		},
		"two programs with one port": {
			"hosts: [{name: a, address: 10.0.0.1, roles: [filter, downloader], downloader: {settings: {listen: '127.0.0.1:8000'}}}]\n", nil, (*Toolkit).Deploy,
			"host a: port 8000 is that of listen of urifilter and of listen of uridownloader: want two\nhint: ",
		},
		"a server at the port of the daemon": {
			"hosts: [{name: a, address: 10.0.0.1, roles: [filter, redis]}]\nredis: {port: 8000}\n", nil, (*Toolkit).Plan,
			"host a: port 8000 is that of redis.port and of listen of urifilter",
		},
		"a server at the port for clients of Redis": {
			"hosts: [{name: a, address: 10.0.0.1, roles: [filter, redis]}]\nredis: {tls: true}\nsettings: {resp: {listen: '127.0.0.1:6380'}}\n", nil, (*Toolkit).Plan,
			"host a: port 6380 is that of redis.tls_port and of resp.listen of urifilter: want two\nhint: ",
		},
		"a filter that a worker beside another one cannot ask": {
			"hosts: [{name: a, address: 10.0.0.1, roles: [filter, redis, mongodb, master]}, {name: b, address: 10.0.0.2, roles: [filter, worker]}]\nmongodb: {flavor: ferretdb}\n", nil, (*Toolkit).InstallAll,
			"filter.url: the filter of host a listens on 127.0.0.1:8000 alone, where host b cannot ask it",
		},
		"a damaged bundle": {
			"hosts: [{name: a, address: 10.0.0.1, roles: [filter, redis]}]\npackages: {bundle: .}\n", map[string]string{
				"a.deb": "changed", "SHA256SUMS": strings.Repeat("0", 64) + "  a.deb\n", "hosts.deb": "",
			}, (*Toolkit).Deploy, "a.deb: it is damaged",
		},
		"a program that is none": {
			"hosts: [{name: a, address: 127.0.0.1, port: 1}]\nrelease: {binary: hosts.yaml}\n", nil, (*Toolkit).Deploy, "hosts.yaml: it is not a program for Linux\nhint: ",
		},
		"a host's program that does not exist": {
			"hosts: [{name: a, address: 127.0.0.1, port: 1, binary: 'x-{arch}'}]\n", nil, (*Toolkit).Get, "x-arm64: no such file or directory\nhint: -binary, or release.binary",
		},
		"a variable that is not set": {
			"hosts: [{name: a, address: 10.0.0.1}]\nmongodb: {uri_env: ARCHIVE}\n", nil, (*Toolkit).SettingsCheck, "the variable ARCHIVE is not set",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			toolkit, _, err := tryOpen(t, c.inventory, c.files, nil)
			if err == nil && c.do != nil {
				err = c.do(toolkit, t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || fleet.Code(err) != fleet.CodeUsage {
				t.Errorf("exit code %d: %v", fleet.Code(err), err)
			}
		})
	}
}

// A plan goes by the name by which it was requested, and its one error is reported in the lines
// of the run and in its summary, not a third time.
func TestAPlanThatFailsSaysSo(t *testing.T) {
	t.Parallel()
	toolkit, out := opened(t, "hosts: [{name: a, address: 127.0.0.1, port: 1}]\n", nil, nil)
	toolkit.o.Build = func(context.Context, program.Program, string) (release.Built, error) { return release.Built{}, nil }
	err := toolkit.Plan(t.Context())
	var told *fleet.Error
	if fleet.Code(err) != fleet.CodeUnreachable || !errors.As(err, &told) || !told.Told || !strings.HasPrefix(err.Error(), "plan: ") {
		t.Errorf("exit code %d: %v", fleet.Code(err), err)
	}
	got := text(t, out)
	if !strings.HasPrefix(got, "plan (nothing is changed): 1 host\n") || strings.Contains(got, "deploy") || strings.Contains(got, "next:") {
		t.Errorf("it says\n%s", got)
	}
}

// What is rolled out has a fingerprint: a run that is resumed with something else does all hosts
// again.
func TestFingerprintFollowsWhatIsRolledOut(t *testing.T) {
	t.Parallel()
	base, _ := opened(t, fleetOfTwo, map[string]string{"base.yaml": "{}\n"}, nil)
	same := base.fingerprint()
	if base.fingerprint() != same || same == "" {
		t.Error("it is not always the same")
	}
	base.o.Revision = "another"
	if base.fingerprint() == same {
		t.Error("other sources, the same fingerprint")
	}
	base.o.Revision = ""
	if err := os.WriteFile(base.inventory.SettingsFile, []byte("durability: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if base.fingerprint() == same {
		t.Error("other settings, the same fingerprint")
	}
	dir := t.TempDir()
	for given, file := range map[string]string{"{program}-linux-{arch}": "urifilter-linux-arm64", "x-{arch}": "x-amd64", "y": "y"} {
		base.o.Binary = filepath.Join(dir, given)
		same := base.fingerprint()
		if err := os.WriteFile(filepath.Join(dir, file), []byte("another"), 0o600); err != nil {
			t.Fatal(err)
		}
		if base.fingerprint() == same {
			t.Errorf("another program %s, the same fingerprint", given)
		}
	}
	base.o.Binary = ""
	base.inventory.Hosts[1].Binary = filepath.Join(dir, "of-host-{arch}")
	same = base.fingerprint()
	if err := os.WriteFile(filepath.Join(dir, "of-host-amd64"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if base.fingerprint() == same {
		t.Error("another program of one host, the same fingerprint")
	}
	base.inventory.TLS.CertFile = filepath.Join(dir, "{host}.pem")
	same = base.fingerprint()
	if err := os.WriteFile(filepath.Join(dir, base.inventory.Hosts[1].Name+".pem"), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if base.fingerprint() == same {
		t.Error("another certificate of one host, the same fingerprint")
	}
	uri := "mongodb://one"
	base.o.Getenv = func(name string) string { return map[string]string{"ARCHIVE": uri}[name] }
	base.inventory.MongoDB.URIEnv = "ARCHIVE"
	same = base.fingerprint()
	if uri = "mongodb://two"; base.fingerprint() == same {
		t.Error("another archive, the same fingerprint")
	}
}

// The toolkit's Redis is filled in for master and workers, with its password and certificates, as
// it is for the filter; a Redis that the operator names is left alone.
func TestRedisOfMasterAndWorkers(t *testing.T) {
	t.Parallel()
	const inventory = `
hosts:
  - {name: hub, address: 10.0.0.1, roles: [filter, redis, mongodb, master]}
  - {name: w1, address: 10.0.0.2, roles: [worker]}
  - {name: w2, address: 10.0.0.3, roles: [worker], downloader: {settings: {redis: {url: "redis://10.0.0.9:6379"}}}}
settings: {listen: "0.0.0.0:8000"}
downloader: {settings: {listen: "0.0.0.0:8001"}}
mongodb: {flavor: ferretdb}
`
	files := map[string]string{
		"tokens.yaml":            "- {name: crawler, token: abcdefghijklmnopqrst, scopes: [filter]}\n",
		"tokens.downloader.yaml": "- {name: news, token: abcdefghijklmnopqrst, scopes: [submit]}\n",
	}
	for _, encrypted := range []bool{false, true} {
		text := inventory
		if encrypted {
			text += "redis: {tls: true}\n"
		}
		toolkit, _ := opened(t, text, files, nil)
		r, err := toolkit.newRun(true)
		if err != nil {
			t.Fatal(err)
		}
		for n, want := range []string{"127.0.0.1", "10.0.0.1", ""} {
			h := toolkit.hosts[n]
			p := r.site.On(h, toolkit.o.Programs[1])
			values, err := r.site.Settings(t.Context(), h, p, true)
			if err != nil {
				t.Fatal(err)
			}
			told, err := values.Read(p)
			if err != nil || told.Validate() != nil {
				t.Errorf("%s: %v, %v", h.Name, err, told.Validate())
			}
			if told.PlainRedis != (want != "" && !encrypted) {
				t.Errorf("%s: calls a Redis without TLS: %t", h.Name, told.PlainRedis)
			}
			written, err := values.Text()
			if err != nil {
				t.Fatal(err)
			}
			got, err := downloader.Parse("x", []byte(written))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case want == "" && (len(got.Redis.Addrs) > 0 || got.Redis.URL != "redis://10.0.0.9:6379" || got.Redis.PasswordFile != ""):
				t.Errorf("%s: %+v", h.Name, got.Redis)
			case want != "" && (len(got.Redis.Addrs) != 1 || !strings.HasPrefix(got.Redis.Addrs[0], want+":") || got.Redis.PasswordFile != "/etc/uridownloader/redis.password"):
				t.Errorf("%s: %+v", h.Name, got.Redis)
			case want != "" && got.Redis.TLS != encrypted, got.Redis.TLS && (got.Redis.TLSCAFile == "" || got.Redis.TLSCertFile == ""):
				t.Errorf("%s: %+v", h.Name, got.Redis.CallTLS)
			}
			if got.Store != "mongodb" {
				t.Errorf("%s: store %s", h.Name, got.Store)
			}
		}
	}
}

// Each program of a host has its own preflights: a host with two is asked for both before the first
// change.
func TestPreflightsOfTwoPrograms(t *testing.T) {
	t.Parallel()
	toolkit, _ := opened(t, "hosts: [{name: a, roles: [filter, downloader]}]\n", nil, nil)
	r, err := toolkit.newRun(true)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range toolkit.o.Programs {
		for _, s := range r.instance(toolkit.hosts[0], p).Preflight() {
			if seen[s.Title()] {
				t.Errorf("%s: another program of the host has a preflight of that name, and it would be left out", s.Title())
			}
			seen[s.Title()] = true
		}
	}
}

// Hosts reach each other at their private addresses, or at those to which SSH connects; a name of
// ssh_config never gets into settings.
func TestAddressesAmongHosts(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "ssh_config")
	if err := os.WriteFile(config, []byte("Host db\n HostName 192.0.2.7\n Port 2222\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"URIFILTER_SSH_CONFIG": config}
	for what, c := range map[string]struct{ host, want string }{
		"an alias":                       {"{name: one, address: db", "192.0.2.7"},
		"an alias and a private address": {"{name: one, address: db, private_address: 10.9.0.1", "10.9.0.1"},
		"NAT":                            {"{name: one, address: 198.51.100.1, private_address: 10.9.0.1", "10.9.0.1"},
		"a forwarded port":               {"{name: one, address: 127.0.0.1, port: 2201, private_address: 10.9.0.1", "10.9.0.1"},
		"an address":                     {"{name: one, address: 10.0.0.1", "10.0.0.1"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			inventory := "hosts:\n  - " + c.host + ", roles: [filter, redis, mysql, mongodb, master]}\n" + `  - {name: two, address: 10.0.0.2, roles: [filter, worker]}
settings: {listen: "0.0.0.0:8000"}
mongodb: {flavor: ferretdb}
`
			toolkit, out := opened(t, inventory, map[string]string{"tokens.yaml": "- {name: a, token: abcdefghijklmnopqrst, scopes: [filter]}\n"}, environ)
			if err := toolkit.SettingsCheck(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"    - " + c.want + ":6379\n", "addr: " + c.want + ":3306\n", "uri: mongodb://" + c.want + ":27017/", "url: http://" + c.want + ":8000\n"} {
				if !strings.Contains(text(t, out), want) {
					t.Errorf("want %q in\n%s", want, text(t, out))
				}
			}
		})
	}
}

// What Prometheus is to scrape names each daemon that can be reached, at the address where others reach it.
func TestSettingsScrape(t *testing.T) {
	t.Parallel()
	const inventory = `
hosts:
  - {name: one, address: 10.0.0.1, private_address: 192.168.0.1, roles: [filter, downloader], downloader: {settings: {tls: {cert_file: /c, key_file: /k}}}}
  - {name: two, address: 10.0.0.2, settings: {listen: "127.0.0.1:8000"}}
settings: {listen: "0.0.0.0:8000"}
downloader: {settings: {listen: "0.0.0.0:8001"}}
`
	tokens := "- {name: news, token: abcdefghijklmnopqrst, scopes: [%s]}\n"
	toolkit, out := opened(t, inventory, map[string]string{"tokens.downloader.yaml": fmt.Sprintf(tokens, "submit"), "tokens.yaml": fmt.Sprintf(tokens, "filter")}, nil)
	if err := toolkit.SettingsScrape(t.Context()); err != nil {
		t.Fatal(err)
	}
	told, list, _ := strings.Cut(text(t, out), "[\n")
	if want := "host two: urifilter listens on loopback alone, and is left out\nhint: "; !strings.HasPrefix(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
	var got []target
	if err := json.Unmarshal([]byte("["+list), &got); err != nil {
		t.Fatal(err)
	}
	want := []target{
		{[]string{"192.168.0.1:8000"}, map[string]string{"job": "urifilter", "host": "one"}},
		{[]string{"192.168.0.1:8001"}, map[string]string{"job": "uridownloader", "host": "one", "__scheme__": "https"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Each question about a host depends on its settings and those of others, which are still parsed once a
// run and not once a question.
func TestSettingsOfAFleetAreReadOnce(t *testing.T) {
	t.Parallel()
	const hosts = 40
	inventory := &strings.Builder{}
	inventory.WriteString("redis: {tls: true}\nsettings_file: filter.yaml\nhosts:\n")
	for i := range hosts {
		roles := "[filter]"
		if i == 0 {
			roles = "[filter, redis]"
		}
		fmt.Fprintf(inventory, "- {name: h%d, address: 10.0.0.%d, roles: %s}\n", i, i+1, roles)
	}
	toolkit, _ := opened(t, inventory.String(), map[string]string{"filter.yaml": "uri_num_scale: 5\n"}, nil)
	parsed := 0
	p := &toolkit.o.Programs[0]
	parse := p.Parse
	p.Parse = func(name string, text []byte) (program.Settings, error) {
		parsed++
		return parse(name, text)
	}
	if err := toolkit.SettingsScrape(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It makes two runs: one that checks and one that tells.
	if most := 2 * (hosts + 1); parsed > most {
		t.Errorf("the settings of %d hosts were parsed %d times, want at most %d", hosts, parsed, most)
	}
}

// A host whose clock is an hour ahead has a daemon that has run for a minute all the same.
func TestHowLongADaemonHasRun(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(time.Hour)
	s := service.Status{Active: "active", Program: "/opt/urifilter/current/urifilter", Started: now.Add(-time.Minute), Now: now}
	if got := upFor(s); got != "1m0s" {
		t.Errorf("it runs for %s", got)
	}
	s.Active = "failed"
	if got := upFor(s); got != "-" {
		t.Errorf("a failed one runs for %s", got)
	}
}
