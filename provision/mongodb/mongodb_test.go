package mongodb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/step"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		`mongodb.version "7.0": want 8.0`:      {Version: "7.0"},
		"FerretDB listens on one address":      {Flavor: FerretDB, Bind: []string{"10.0.0.1", "10.0.1.1"}},
		`mongodb.database "a/b": want letters`: {Database: "a/b"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q in it", o, err, want)
		}
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o     Options
		local bool
		want  string
	}{
		{Options{}, true, "127.0.0.1:27017"},
		{Options{Bind: []string{"10.0.0.5"}}, true, "127.0.0.1:27017"},
		{Options{Bind: []string{"10.0.0.5"}}, false, "10.0.0.5:27017"},
		{Options{Bind: []string{"10.0.0.5", "10.1.0.5"}, Port: 27018}, false, "host.example:27018"},
		{Options{}, false, "host.example:27017"},
		{Options{Flavor: FerretDB}, true, "127.0.0.1:27017"},
		{Options{Flavor: FerretDB, Bind: []string{"fd00::5"}}, true, "[fd00::5]:27017"},
		{Options{Flavor: FerretDB, Bind: []string{"10.0.0.5"}}, false, "10.0.0.5:27017"},
	} {
		s, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Address(c.local, "host.example"); got != c.want {
			t.Errorf("%+v, local %v: got %s, want %s", c.o, c.local, got, c.want)
		}
	}
}

func TestSupported(t *testing.T) {
	t.Parallel()
	intel, arm := []string{"sse4_2", "avx"}, []string{"fp", "asimd", "atomics", "asimddp"}
	for _, c := range []struct {
		f    host.Facts
		want string
	}{
		{host.Facts{OS: "debian", Version: "12", Arch: "amd64", CPU: intel}, ""},
		{host.Facts{OS: "ubuntu", Version: "24.04", Arch: "arm64", CPU: arm}, ""},
		{host.Facts{OS: "ubuntu", Version: "20.04", Arch: "amd64", CPU: intel}, ""},
		{host.Facts{OS: "debian", Version: "12", Arch: "arm64", CPU: arm, Name: "Debian 12"}, "for Debian 12 is made for amd64 alone; this host is arm64"},
		{host.Facts{OS: "debian", Version: "13", Arch: "amd64", CPU: intel, Name: "Debian 13"}, "MongoDB 8.0 is not made for Debian 13: its makers have it for Ubuntu 20.04, Ubuntu 22.04, Ubuntu 24.04, Debian 12\nhint: choose mongodb.flavor: ferretdb"},
		{host.Facts{OS: "debian", Version: "12", Arch: "amd64", CPU: []string{"sse4_2"}}, "needs a processor with AVX"},
		{host.Facts{OS: "ubuntu", Version: "22.04", Arch: "arm64", CPU: []string{"fp", "asimd", "crc32"}}, "ARMv8.2-A"},
		{host.Facts{OS: "ubuntu", Version: "22.04", Arch: "arm64", CPU: []string{"atomics"}}, "ARMv8.2-A"},
	} {
		err := supported(c.f, "8.0")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: got %v, want %q in it", c.f, err, c.want)
		}
	}
}

func TestSameSeries(t *testing.T) {
	t.Parallel()
	for version, good := range map[string]bool{"8.0.4": true, "8.0": true, "1:8.0.4-1": true, "7.0.14": false, "8.01.1": false, "1:3.6.3-0ubuntu1": false} {
		err := sameSeries("mongodb-org-server", version, "8.0")
		if (err == nil) != good {
			t.Errorf("%s: got %v", version, err)
		}
		if err != nil && !strings.Contains(err.Error(), "\nhint: upgrade it by hand") {
			t.Errorf("%s: no hint in %v", version, err)
		}
	}
}

func TestMakers(t *testing.T) {
	t.Parallel()
	r, key := makers(host.Facts{OS: "ubuntu", Codename: "noble"}, "8.0")
	if r.URL != "https://repo.mongodb.org/apt/ubuntu" || r.Suite != "noble/mongodb-org/8.0" || r.Component != "multiverse" || key != "https://pgp.mongodb.com/server-8.0.asc" {
		t.Errorf("got %+v, %s", r, key)
	}
	if r, _ := makers(host.Facts{OS: "debian", Codename: "bookworm"}, "8.0"); r.Suite != "bookworm/mongodb-org/8.0" || r.Component != "main" {
		t.Errorf("got %+v", r)
	}
}

func TestEdited(t *testing.T) {
	t.Parallel()
	const before = `# where data is
storage:
  dbPath: /var/lib/mongodb  # on the large disk

net:
  port: 27017
  bindIp: 127.0.0.1


#security:

#replication:
`
	wish := []setting{{"net.port", 27018}, {"net.bindIp", "127.0.0.1,10.0.0.5"}, {"security.authorization", "enabled"}}
	got, err := edited(before, wish...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  dbPath: /var/lib/mongodb  # on the large disk\n", "  port: 27018\n", "  bindIp: 127.0.0.1,10.0.0.5\n", "\n  authorization: enabled\n", "\n#replication:\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if again, err := edited(got, wish...); err != nil || again != got {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	for text, want := range map[string]string{
		"replication:\n  replSetName: rs0\n":  "/etc/mongod.conf:2: replication.replSetName: this server belongs to a replica set",
		"sharding: {clusterRole: shardsvr}\n": "belongs to a replica set or a cluster\nhint: name it",
		"net:\n  bindIpAll: true\n":           "/etc/mongod.conf:2: net.bindIpAll",
		"net: [\n":                            "/etc/mongod.conf:",
	} {
		if _, err := edited(text, wish...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", text, err, want)
		}
	}
}

// A server that listens on an address of IPv6 must be told to: it leaves the address out otherwise, and other hosts do
// not reach it.
func TestListensOnIPv6(t *testing.T) {
	t.Parallel()
	for bind, want := range map[string]string{
		"":         "net:\n  bindIp: 127.0.0.1\n",
		"10.0.0.5": "net:\n  bindIp: 127.0.0.1,10.0.0.5\n",
		"fd00::5":  "net:\n  bindIp: 127.0.0.1,fd00::5\n  ipv6: true\n",
	} {
		s, err := New(Options{Bind: strings.Fields(bind)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := edited("", s.addresses()...); err != nil || got != want {
			t.Errorf("%q: %v\n%s", bind, err, got)
		}
	}
}

// TLS is set, and removed where the toolkit has set it; what others have set stays.
func TestEditedForTLS(t *testing.T) {
	t.Parallel()
	with := &Server{Options{Certificate: func(pki.Place) step.Step { return step.Named("certificate") }}}
	without := &Server{}
	const before = "net:\n  port: 27017\n"
	on, err := edited(before, with.encryption()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mode: requireTLS\n", "certificateKeyFile: /etc/urifilter-mongodb-tls/server.pem\n", "CAFile: /etc/urifilter-mongodb-tls/ca.pem\n"} {
		if !strings.Contains(on, want) {
			t.Errorf("no %q in\n%s", want, on)
		}
	}
	if again, err := edited(on, with.encryption()...); err != nil || again != on {
		t.Errorf("a second time: %v\n%s", err, again)
	}
	if off, err := edited(on, without.encryption()...); err != nil || strings.Contains(off, "requireTLS") || strings.Contains(off, "urifilter") {
		t.Errorf("taken back: %v\n%s", err, off)
	}
	theirs := before + "  tls: {mode: requireTLS, certificateKeyFile: /etc/ssl/mongo.pem}\n"
	if kept, err := edited(theirs, without.encryption()...); err != nil || kept != theirs {
		t.Errorf("of others: %v\n%s", err, kept)
	}
}

// stale is a host on which the drop-in is as it must be, and newer than the server that runs.
type stale struct {
	host.Host
	content string
	ran     []string
}

func (h *stale) Run(_ context.Context, c host.Command) (host.Output, error) {
	switch {
	case strings.Contains(c.Script, "stat -Lc"):
		return host.Output{Stdout: fmt.Sprintf("1\nregular file|%d|644|root|root\n%s", len(h.content), h.content)}, nil
	case !c.Look && !c.Watch:
		h.ran = append(h.ran, c.Script)
	}
	return host.Output{Stdout: "LoadState=loaded\nActiveState=active\n"}, nil
}

// A run that was broken off between the new address of FerretDB and its restart is completed by the next.
func TestFerretDBThatWasNotRestarted(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Flavor: FerretDB, Bind: []string{"10.0.0.5"}})
	if err != nil {
		t.Fatal(err)
	}
	h := &stale{}
	change, err := s.ferretListens().Look(t.Context(), h)
	if err != nil || change == nil || change.Diff == "" {
		t.Fatal(change, err)
	}
	h.content = strings.Join(slices.DeleteFunc(strings.SplitAfter(change.Diff, "\n"), func(l string) bool { return !strings.HasPrefix(l, "+") || strings.HasPrefix(l, "+++") }), "")
	h.content = strings.TrimPrefix(strings.ReplaceAll(h.content, "\n+", "\n"), "+")
	change, err = s.ferretListens().Look(t.Context(), h)
	if err != nil || change == nil || change.Diff != "" || !strings.HasPrefix(change.Summary, "restart ferretdb, which runs with an older ") {
		t.Fatalf("%+v, %v", change, err)
	}
	if err := change.Apply(t.Context()); err != nil || len(h.ran) != 1 || !strings.Contains(h.ran[0], "systemctl daemon-reload") || !strings.Contains(h.ran[0], "systemctl restart ferretdb.service") {
		t.Errorf("%q, %v", h.ran, err)
	}
}

// found is a host with a MongoDB that the toolkit has not set up. It has no tunnel, so that nobody can ask the server.
type found struct {
	host.Host
	config, state string
	ran           []string
}

func (h *found) Run(ctx context.Context, c host.Command) (host.Output, error) {
	switch {
	case strings.Contains(c.Script, "stat -Lc"):
		if !strings.Contains(c.Script, configPath) {
			return host.Output{Stdout: "0\n"}, nil
		}
		return host.Output{Stdout: fmt.Sprintf("1\nregular file|%d|644|root|root\n%s", len(h.config), h.config)}, nil
	case strings.Contains(c.Script, "find"):
		out, err := exec.CommandContext(ctx, "sh", "-c", c.Script).Output()
		return host.Output{Stdout: string(out)}, err
	case strings.Contains(c.Script, "/dev/tcp/"):
		return host.Output{Code: 1}, nil // it listens elsewhere
	case strings.Contains(c.Script, "uname -m"):
		return host.Output{Stdout: "arch=x86_64\nos=debian\nversion=12\ncodename=bookworm\nsystemd=252\ncpu=avx\n"}, nil
	case strings.Contains(c.Script, "dpkg-query"):
		return host.Output{Stdout: "mongodb-org installed 8.0.4\nferretdb installed 8.0.4\n"}, nil
	case !c.Look && !c.Watch:
		h.ran = append(h.ran, c.Script[max(0, strings.LastIndex(c.Script, "systemctl")):])
		h.state = map[bool]string{true: "inactive", false: "active"}[strings.Contains(c.Script, "systemctl stop")]
	}
	return host.Output{Stdout: "LoadState=loaded\nActiveState=" + h.state + "\n"}, nil
}

// A server of others is found wherever its data are, and is as it was after it was refused.
func TestServerOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, link, empty := filepath.Join(dir, "data"), filepath.Join(dir, "link"), filepath.Join(dir, "empty")
	if err := errors.Join(os.MkdirAll(filepath.Join(data, "journal"), 0o700), os.Mkdir(empty, 0o700), os.Symlink(data, link)); err != nil {
		t.Fatal(err)
	}
	listensElsewhere, started := "does not listen at 127.0.0.1:27017", []string{"systemctl start mongod.service", "systemctl stop mongod.service"}
	for name, c := range map[string]struct {
		data, state, refused string
		ran                  []string
	}{
		"up":                {data, "active", errNoTunnel.Error(), nil},
		"up, data unknown":  {empty, "active", errNoTunnel.Error(), nil},
		"down":              {data, "inactive", listensElsewhere, started},
		"down, data linked": {link, "inactive", listensElsewhere, started},
		"never started":     {empty, "inactive", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &found{config: "net:\n  port: 27017\nstorage:\n  dbPath: " + c.data + "\n", state: c.state}
				s, err := New(Options{})
				if err != nil {
					t.Fatal(err)
				}
				check := func(of string, err error) {
					t.Helper()
					if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) || !slices.Equal(h.ran, c.ran) || h.state != c.state {
						t.Errorf("%s: %v, and it is %s after %q", of, err, h.state, h.ran)
					}
				}
				check("before its port is set", s.mayTake(t.Context(), h, true))
				if c.refused == "" {
					return
				}
				for _, w := range []step.Wish{s.asked(), s.service()} {
					h.ran = nil
					change, err := w.Look(t.Context(), h)
					if err != nil || change == nil {
						t.Fatal(w.Title(), change, err)
					}
					check(w.Title(), change.Apply(t.Context()))
				}
			})
		})
	}
}

// So is a FerretDB, which needs no file. Both are asked before anything else: no package is put on hold.
func TestOthersAreAskedFirst(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, flavor := range []string{MongoDB, FerretDB} {
		for state, refused := range map[string]string{"active": errNoTunnel.Error(), "inactive": "does not listen at 127.0.0.1:27017"} {
			synctest.Test(t, func(t *testing.T) {
				h := &found{state: state, config: "storage: {dbPath: " + data + "}\n"}
				s, err := New(Options{Flavor: flavor, Port: 27018, Bind: []string{"10.0.0.5"}, Bundle: true})
				if err != nil {
					t.Fatal(err)
				}
				var failed error
				for _, of := range s.Steps(apt.New(apt.Options{}))[1:] { // the first is about apt
					if proof, proves := of.(step.Proof); proves {
						failed = proof.Prove(t.Context(), h)
					} else if change, err := of.(step.Wish).Look(t.Context(), h); err != nil || change == nil {
						failed = err
					} else {
						failed = change.Apply(t.Context())
					}
					if failed != nil {
						break
					}
				}
				want := map[string][]string{"inactive": {"systemctl start " + s.unit(), "systemctl stop " + s.unit()}}[state]
				if failed == nil || !strings.Contains(failed.Error(), refused) || h.state != state || !slices.Equal(h.ran, want) {
					t.Errorf("%s: %v, and it is %s after %q", flavor, failed, h.state, h.ran)
				}
			})
		}
	}
}
