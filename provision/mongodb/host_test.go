package mongodb

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/hosttest"
	"github.com/cr-clawer/urifilter/provision/sandbox"
	"github.com/cr-clawer/urifilter/provision/sandbox/aptrepo"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// ferret is FerretDB from the sandbox's repository.
func ferret(t *testing.T, r *sandbox.Repository, change func(*Options)) (*Server, []step.Step) {
	t.Helper()
	o := Options{
		Flavor: FerretDB, Packages: []string{r.Package},
		Repository: apt.Repository{URL: r.URL, Suite: r.Suite, Component: r.Component},
		Key:        func(context.Context) ([]byte, error) { return os.ReadFile(r.KeyFile) },
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Steps(apt.New(apt.Options{}))
}

func TestSystemFerretDB(t *testing.T) {
	t.Parallel()
	hosts, repository := hosttest.WithRepository(t, "bookworm", "trixie")
	for _, h := range hosts {
		t.Run(h.Sandbox.Release, func(t *testing.T) {
			t.Parallel()
			bind := func(o *Options) { o.Bind = []string{h.Sandbox.Address} }
			for want, change := range map[string]func(*Options){
				"hint: the key does not belong":   func(o *Options) { o.Key = wrongKey },
				"hint: the address, or the suite": func(o *Options) { o.Repository.Suite = "{codename}/none" },
				"no key is given":                 func(o *Options) { o.Key = nil },
				"apt-get: ":                       func(o *Options) { o.Repository.Suite = aptrepo.Tampered },
			} {
				_, steps := ferret(t, repository, change)
				if _, err := hosttest.Apply(t, h, steps); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
				if got := h.Sh(t, "ls /etc/apt/sources.list.d /etc/apt/keyrings"); strings.Contains(got, "urifilter") {
					t.Errorf("%s: left behind: %s", want, got)
				}
			}
			s, steps := ferret(t, repository, bind)
			if plan := hosttest.Plan(t, h, steps); len(plan) != 5 {
				t.Errorf("plan: %q", plan)
			}
			hosttest.Must(t, h, steps)
			if got := h.Sh(t, "apt-mark showhold; ss -ltnH sport = :27017 | wc -l"); got != repository.Package+"\n1" {
				t.Errorf("held, listening: %s", got)
			}
			uri, err := s.URI(t.Context(), h, true, "")
			if err != nil || uri != "mongodb://"+h.Sandbox.Address+":27017/" {
				t.Errorf("uri: %s, %v", uri, err)
			}
			conn, err := net.DialTimeout("tcp", h.Sandbox.Address+":27017", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if err := h.Sandbox.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			h = h.Reconnect(t)
			if changed := hosttest.Must(t, h, steps); len(changed) != 0 {
				t.Errorf("after a reboot, changed: %q", changed)
			}
			// Another address, then one that the host does not have.
			_, local := ferret(t, repository, nil)
			hosttest.Must(t, h, local)
			_, wrong := ferret(t, repository, func(o *Options) { o.Bind = []string{"192.0.2.77"} })
			if _, err := hosttest.Apply(t, h, wrong); err == nil || !strings.Contains(err.Error(), "does not listen at 192.0.2.77:27017") || !strings.Contains(err.Error(), "cannot assign requested address") {
				t.Errorf("another host's address: %v", err)
			}
			hosttest.Must(t, h, local)
			h.Sh(t, "systemctl disable -q --now ferretdb")
			if changed := hosttest.Must(t, h, local); len(changed) != 1 {
				t.Errorf("stopped, changed: %q", changed)
			}
		})
	}
}

func wrongKey(context.Context) ([]byte, error) {
	return os.ReadFile("/usr/share/keyrings/debian-archive-keyring.gpg")
}

func TestSystemMongoDBWhereItIsNotMade(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "trixie")
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := hosttest.Apply(t, h, s.Steps(apt.New(apt.Options{}))); err == nil || len(changed) != 0 || !strings.Contains(err.Error(), "MongoDB 8.0 is not made for Debian GNU/Linux 13 (trixie)") {
		t.Errorf("got %q, %v", changed, err)
	}
}

// MongoDB is not available here. What the toolkit sends to it over the wire, and the file that it
// edits, are tested on FerretDB with its own users: FerretDB creates and knows them as MongoDB
// does, but asks for no password on a connection that brings none.
func TestSystemUsers(t *testing.T) {
	t.Parallel()
	hosts, repository := hosttest.WithRepository(t, "bookworm")
	h := hosts[0]
	server, steps := ferret(t, repository, nil)
	facts, err := host.FactsOf(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	packages, repositories, err := server.Sources(t.Context(), facts)
	if err != nil {
		t.Fatal(err)
	}
	bundle := t.TempDir()
	if err := apt.Collect(hosttest.Voiced(t), h, bundle, repositories, packages...); err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(filepath.Join(bundle, "debian12-*", "ferretdb_*.deb")); len(found) != 1 || err != nil {
		t.Errorf("collected: %q, %v", found, err)
	}
	if got := h.Sh(t, "ls /etc/apt/sources.list.d /etc/apt/keyrings; ls -d /var/cache/urifilter-toolkit 2>&1 || :; apt-cache policy ferretdb"); strings.Contains(got, "urifilter\n") || strings.Contains(got, "Candidate: 1") {
		t.Errorf("the host after the collection: %s", got)
	}
	hosttest.Must(t, h, steps)
	s, err := New(Options{Unit: "ferretdb"})
	if err != nil {
		t.Fatal(err)
	}
	auth := func(on string) {
		h.Sh(t, "printf 'FERRETDB_TEST_ENABLE_NEW_AUTH="+on+"\n' >/etc/default/ferretdb; systemctl restart ferretdb")
		if err := s.listens(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	if uri, err := s.URI(t.Context(), h, false, "10.0.0.5"); !errors.Is(err, secret.ErrNoPassword) {
		t.Errorf("uri before: %s, %v", uri, err)
	}
	users := []step.Step{s.users()}
	moved, err := New(Options{Unit: "ferretdb", Port: 27018, Packages: []string{repository.Package}, Bundle: true})
	if err != nil {
		t.Fatal(err)
	}
	// What others have is refused before it is changed, and is as it was.
	const theirs = "net:\n  port: 27017\nstorage:\n  dbPath: /var/lib/ferretdb"
	refused := func(state, want string) {
		t.Helper()
		for of, steps := range map[string][]step.Step{"all": moved.Steps(apt.New(apt.Options{})), "another port": {moved.port()}} {
			if _, err := hosttest.Apply(t, h, steps); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v", state, of, err)
			}
			if got := h.Sh(t, "cat /etc/mongod.conf; ls -d /etc/mongod.conf.* /etc/urifilter-mongodb 2>/dev/null; apt-mark showhold; systemctl is-active ferretdb || :"); got != theirs+"\n"+state {
				t.Errorf("%s, %s, and after it was refused: %s", state, of, got)
			}
		}
	}
	h.Sh(t, "apt-mark unhold -q ferretdb; printf '"+theirs+"\n' >/etc/mongod.conf")
	auth("true")
	refused("active", "other applications have users in it\nhint: name it in the inventory")
	h.Sh(t, "systemctl stop ferretdb")
	refused("inactive", "other applications have users in it\nhint: name it in the inventory")
	h.Sh(t, "systemctl start ferretdb")
	if _, err := hosttest.Apply(t, h, users); err == nil || !strings.Contains(err.Error(), "other applications have users in it\nhint: name it in the inventory") {
		t.Errorf("a server that wants a password: %v", err)
	}
	auth("false")
	if err := s.call(t.Context(), h, account{}, func(ctx context.Context, c *mongo.Client) error {
		_, err := c.Database("shop").Collection("carts").InsertOne(ctx, bson.M{"_id": 1})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	refused("active", `a database of another application, "shop"`)
	h.Sh(t, "systemctl stop ferretdb")
	refused("inactive", `a database of another application, "shop"`)
	// So is a FerretDB, wherever it listens.
	h.Sh(t, "rm -r /etc/systemd/system/ferretdb.service.d; echo FERRETDB_LISTEN_ADDR=:27019 >>/etc/default/ferretdb; systemctl daemon-reload")
	for _, state := range []string{"inactive", "active"} {
		if state == "active" {
			h.Sh(t, "systemctl start ferretdb")
			h.Wait(t, "bash -c '</dev/tcp/127.0.0.1/27019'")
		}
		if changed, err := hosttest.Apply(t, h, steps); err == nil || len(changed) != 0 || !strings.Contains(err.Error(), `a database of another application, "shop"`) {
			t.Errorf("a FerretDB that is %s: %q, %v", state, changed, err)
		}
		if got := h.Sh(t, "apt-mark showhold; ls -d /etc/systemd/system/ferretdb.service.d 2>/dev/null; systemctl is-active ferretdb || :"); got != state {
			t.Errorf("a FerretDB that is %s, after it was refused: %s", state, got)
		}
	}
	auth("false")
	if err := s.listens(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if _, err := hosttest.Apply(t, h, users); err == nil || !strings.Contains(err.Error(), `a database of another application, "shop"`) {
		t.Errorf("a server with data: %v", err)
	}
	if got := h.Sh(t, "ls -d /etc/urifilter-mongodb 2>&1 || :"); !strings.Contains(got, "No such file") {
		t.Errorf("left behind: %s", got)
	}
	h.Sh(t, "systemctl stop ferretdb; rm -rf /var/lib/ferretdb/*")
	auth("false")
	// FerretDB creates its first user when it starts, and knows no roles.
	if _, err := s.makePasswords(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	admin, err := s.account(t.Context(), h, adminUser)
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := s.account(t.Context(), h, DaemonUser)
	if err != nil {
		t.Fatal(err)
	}
	auth("true\nFERRETDB_SETUP_DATABASE=admin\nFERRETDB_SETUP_USERNAME=" + admin.name + "\nFERRETDB_SETUP_PASSWORD=" + admin.password)
	if c, err := users[0].(step.Wish).Look(t.Context(), h); err != nil || c == nil {
		t.Errorf("before the user is made: %v, %v", c, err)
	}
	wrong := account{daemon.name, "wrong"}
	for _, as := range []account{wrong, daemon} { // made, then changed
		if err := s.upsertUser(t.Context(), h, admin, as, bson.A{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.ping(t.Context(), h, wrong); !isAuth(err) {
		t.Errorf("with an old password: %v", err)
	}
	if again := hosttest.Must(t, h, users); len(again) != 0 {
		t.Errorf("again: %q", again)
	}
	uri, err := s.URI(t.Context(), h, false, "10.0.0.5")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(uri)
	if err != nil || u.Host != "10.0.0.5:27017" || u.User.Username() != "urifilter" || u.Query().Get("authSource") != "admin" {
		t.Errorf("uri: %v, %v", u.Redacted(), err)
	}
	if got := h.Sh(t, "stat -c '%a %U' /etc/urifilter-mongodb /etc/urifilter-mongodb/*; runuser -u nobody -- ls /etc/urifilter-mongodb 2>&1 || :"); got != "700 root\n600 root\n600 root\nls: cannot open directory '/etc/urifilter-mongodb': Permission denied" {
		t.Errorf("the passwords' files: %s", got)
	}
	// The file is edited, and an edit that keeps the server from starting is undone.
	h.Sh(t, "printf 'net:\n  port: 27017\n' >/etc/mongod.conf")
	hosttest.Must(t, h, []step.Step{s.configuration()})
	if got := h.Sh(t, "cat /etc/mongod.conf; cat /etc/mongod.conf.before-urifilter"); got != "net:\n  port: 27017\n  bindIp: 127.0.0.1\nsecurity:\n  authorization: enabled\nnet:\n  port: 27017" {
		t.Errorf("the file: %s", got)
	}
	h.Sh(t, "sleep 1.1; touch /etc/mongod.conf")
	if changed := hosttest.Must(t, h, []step.Step{s.configuration()}); len(changed) != 1 || !strings.Contains(changed[0], "restart ferretdb") {
		t.Errorf("a file that is newer than the server: %q", changed)
	}
	if _, err := hosttest.Apply(t, h, []step.Step{moved.port()}); err == nil || !strings.Contains(err.Error(), "does not listen at 127.0.0.1:27018") {
		t.Errorf("a server that does not come up: %v", err)
	}
	if got := h.Sh(t, "grep port /etc/mongod.conf; systemctl is-active ferretdb"); got != "  port: 27017\nactive" {
		t.Errorf("taken back: %s", got)
	}
	if err := s.checkUnused(t.Context(), h); err != nil {
		t.Errorf("mine: %v", err)
	}
}
