package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/hosttest"
	"github.com/cr-clawer/urifilter/provision/pki"
	"github.com/cr-clawer/urifilter/provision/redis"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

func server(t *testing.T, o redis.Options) (*redis.Server, []step.Step) {
	t.Helper()
	s, err := redis.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Steps(apt.New(apt.Options{}))
}

func refused(t *testing.T, h *hosttest.Host, o redis.Options, want string) {
	t.Helper()
	_, steps := server(t, o)
	if changed, err := hosttest.Apply(t, h, steps); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %q and %v, want %q in it", changed, err, want)
	}
}

func password(t *testing.T, h *hosttest.Host, s *redis.Server) string {
	t.Helper()
	secret, err := s.Password(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestSystemFromNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ release, pkg, cli string }{{"bookworm", "", "redis-cli"}, {"trixie", "", "redis-cli"}, {"trixie", "valkey-server", "valkey-cli"}} {
		t.Run(c.release+" "+c.pkg, func(t *testing.T) {
			t.Parallel()
			h := hosttest.New(t, c.release)
			s, steps := server(t, redis.Options{Package: c.pkg, Bind: []string{h.Sandbox.Address}, MaxMemory: "64mb", AppendFsync: "always"})
			if _, err := s.Password(t.Context(), h); !errors.Is(err, secret.ErrNoPassword) {
				t.Errorf("password before: %v", err)
			}
			if plan := hosttest.Plan(t, h, steps); len(plan) != 5 {
				t.Errorf("plan: %q", plan)
			}
			hosttest.Must(t, h, steps)
			secret := password(t, h, s)
			if len(secret) != 64 {
				t.Errorf("password of %d characters", len(secret))
			}
			cli := fmt.Sprintf("%s -h %s --no-auth-warning -a %s ", c.cli, h.Sandbox.Address, secret)
			if got := h.Sh(t, cli+"set urifilter:x 1; "+c.cli+" -h "+h.Sandbox.Address+" ping"); got != "OK\nNOAUTH Authentication required." {
				t.Errorf("over the network: %s", got)
			}
			if got := h.Sh(t, "runuser -u nobody -- cat /etc/*/urifilter.secret.conf 2>&1 || :"); !strings.Contains(got, "Permission denied") {
				t.Errorf("others read the password: %s", got)
			}
			if got := h.Sh(t, "grep -rl "+secret+" /etc /var/log /tmp /run 2>/dev/null"); strings.Count(got, "\n") != 0 || !strings.HasSuffix(got, "urifilter.secret.conf") {
				t.Errorf("the password is in\n%s", got)
			}

			// After a reboot, everything is as it was.
			if err := h.Sandbox.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			h = h.Reconnect(t)
			h.Wait(t, cli+"ping")
			if got := h.Sh(t, cli+"get urifilter:x"); got != "1" {
				t.Errorf("after a reboot: %s", got)
			}
			if changed := hosttest.Must(t, h, steps); len(changed) != 0 {
				t.Errorf("after a reboot, changed: %q", changed)
			}
			if c.release == "bookworm" { // package e2e tests it on the other release
				encrypted(t, h, s, steps, redis.Options{Bind: []string{h.Sandbox.Address}, MaxMemory: "64mb", AppendFsync: "always"})
			}
		})
	}
}

// encrypted moves a server that daemons use to TLS, renews its certificate and moves it back.
// Until ClosePlain it answers both with and without TLS, and up to that point it is not
// restarted.
func encrypted(t *testing.T, h *hosttest.Host, s *redis.Server, plain []step.Step, o redis.Options) {
	t.Helper()
	certificates := pki.Options{Dir: filepath.Join(t.TempDir(), "tls"), Life: 90 * 24 * time.Hour}
	with := func(p pki.Options) (*redis.Server, []step.Step) {
		t.Helper()
		certs := pki.New(p)
		o.TLSPort = 6380
		o.Certificate = func(place pki.Place) step.Step {
			return certs.Step(place, "host1", []string{"127.0.0.1", h.Sandbox.Address})
		}
		return server(t, o)
	}
	// shown returns the serial number of the certificate that a client gets.
	shown := func() string {
		t.Helper()
		config, err := pki.New(certificates).Client(t.Context(), "host1")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", h.Sandbox.Address+":6380")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	process := func() string { return h.Sh(t, "systemctl show -p MainPID --value "+s.Package()) }
	before := process()
	now, steps := with(certificates)
	hosttest.Must(t, h, steps)
	ask := fmt.Sprintf("redis-cli --no-auth-warning -a %s -p ", password(t, h, now))
	if got := h.Sh(t, ask+"6379 get urifilter:x"); got != "1" {
		t.Errorf("without TLS, while daemons may need it: %s", got)
	}
	first := shown()
	by := func(text string) []step.Step {
		return []step.Step{now.ClosePlain(func(context.Context) (string, error) { return text, nil })}
	}
	if changed := hosttest.Must(t, h, by("host web1 needs it")); len(changed) != 0 {
		t.Errorf("a port that is needed: %q", changed)
	}
	if changed := hosttest.Must(t, h, by("")); len(changed) != 1 || !strings.HasPrefix(changed[0], "redis: plain port: close the plain port 6379") {
		t.Errorf("closing: %q", changed)
	}
	if got := h.Sh(t, ask+"6379 ping 2>&1 || :"); !strings.Contains(got, "Could not connect") {
		t.Errorf("the plain port: %s", got)
	}
	if got := h.Sh(t, ask+"6380 --tls --cacert /etc/redis/urifilter.ca.pem ping 2>&1 || :"); strings.Contains(got, "PONG") {
		t.Errorf("a client without a certificate: %s", got)
	}
	if changed := hosttest.Must(t, h, steps); len(changed) != 0 {
		t.Errorf("a second time: %q", changed)
	}

	certificates.Renew = time.Now()
	_, steps = with(certificates)
	if changed := hosttest.Must(t, h, steps); len(changed) != 1 || !strings.Contains(changed[0], "a renewal was asked for") {
		t.Errorf("renewal: %q", changed)
	}
	if shown() == first {
		t.Error("the old certificate is in use")
	}
	if process() != before {
		t.Error("it was restarted for TLS")
	}
	// A run that was interrupted before the server had loaded the certificate is completed.
	h.Sh(t, "rm /etc/*/.urifilter.pem.loaded")
	if changed := hosttest.Must(t, h, steps); len(changed) != 1 || !strings.Contains(changed[0], "it is not in use yet") {
		t.Errorf("broken off: %q", changed)
	}
	if got := h.Sh(t, "stat -c '%a %U' /etc/*/urifilter.pem; runuser -u nobody -- cat /etc/*/urifilter.pem 2>&1 || :"); !strings.HasPrefix(got, "640 root\n") || strings.Contains(got, "PRIVATE") {
		t.Errorf("its key: %s", got)
	}
	// The authority of another machine does not replace it unasked.
	certificates.Dir = filepath.Join(t.TempDir(), "tls")
	_, steps = with(certificates)
	if _, err := hosttest.Apply(t, h, steps); err == nil || !strings.Contains(err.Error(), "it was issued by another authority than the one on this machine\nhint: bring ") {
		t.Errorf("another machine: %v", err)
	}
	hosttest.Must(t, h, plain)
	if got := h.Sh(t, ask+"6379 get urifilter:x; ss -Hltn sport = :6380"); got != "1" {
		t.Errorf("without TLS again: %s", got)
	}
}

func TestSystemServerWithData(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "bookworm")
	s, steps := server(t, redis.Options{})
	h.Sh(t, "apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends redis-server >/dev/null")
	// A server that was used for filters without an append-only file, and is down.
	h.Sh(t, "redis-cli set urifilter:filters a; redis-cli save; systemctl disable -q --now redis-server")
	h.Sh(t, `cp /etc/redis/redis.conf /root/before; printf 'slowlog-max-len 77' >>/etc/redis/redis.conf`)
	if plan := hosttest.Plan(t, h, steps); len(plan) != 5 {
		t.Errorf("plan: %q", plan)
	}
	hosttest.Must(t, h, steps)
	first := password(t, h, s)
	cli := func() string { return "redis-cli --no-auth-warning -a " + password(t, h, s) + " " }
	if got := h.Sh(t, "systemctl restart redis-server; "+cli()+"get urifilter:filters"); got != "a" {
		t.Errorf("what it held before: %q", got)
	}
	if got := h.Sh(t, "diff /root/before /etc/redis/redis.conf | sed 1d"); got != `> slowlog-max-len 77
> 
> # The urifilter toolkit's settings. They stand at the end so that they go before what is above.
> include /etc/redis/urifilter.conf` {
		t.Errorf("redis.conf:\n%s", got)
	}
	if got := h.Sh(t, "tail -n 1 /etc/redis/redis.conf.before-urifilter; stat -c '%a %U:%G' /etc/redis/redis.conf"); got != "slowlog-max-len 77640 redis:redis" {
		t.Errorf("kept: %s", got)
	}

	// What somebody changes in the running server is put right.
	h.Sh(t, cli()+"config set maxmemory-policy allkeys-lru; "+cli()+"config set requirepass ''; redis-cli set urifilter:late 1")
	if changed := hosttest.Must(t, h, steps); len(changed) != 1 || !strings.Contains(changed[0], "restart redis-server: maxmemory-policy") {
		t.Errorf("changed: %q", changed)
	}
	if got := h.Sh(t, cli()+"get urifilter:late"); got != "1" {
		t.Errorf("after the restart: %q", got)
	}
	// So is an append-only file that was turned off: the restart loses nothing.
	h.Sh(t, cli()+"config set appendonly no; "+cli()+"set urifilter:later 2")
	hosttest.Must(t, h, steps)
	if got := h.Sh(t, cli()+"mget urifilter:filters urifilter:late urifilter:later"); got != "a\n1\n2" {
		t.Errorf("after appendonly: %q", got)
	}
	// Another port, another address.
	_, moved := server(t, redis.Options{Port: 6400, Bind: []string{h.Sandbox.Address}})
	hosttest.Must(t, h, moved)
	if got := h.Sh(t, cli()+"-p 6400 -h "+h.Sandbox.Address+" get urifilter:later"); got != "2" {
		t.Errorf("on another port: %q", got)
	}
	refused(t, h, redis.Options{Port: 6400, Bind: []string{"192.0.2.77"}}, "hint: every address of redis.bind")
	hosttest.Must(t, h, steps)
	if got := h.Sh(t, "ls /etc/systemd/system/redis-server.service.d 2>&1; ss -ltnH sport = :6400"); !strings.Contains(got, "No such file") || strings.Contains(got, ":6400") {
		t.Errorf("back again: %s", got)
	}
	// A new password is made by removing the old one.
	h.Sh(t, "rm /etc/redis/urifilter.secret.conf")
	hosttest.Must(t, h, steps)
	if second := password(t, h, s); second == first || h.Sh(t, cli()+"get urifilter:later") != "2" {
		t.Error("the password has not changed")
	}
	// Settings that override ours are reported.
	h.Sh(t, "echo 'maxmemory-policy volatile-lru' >>/etc/redis/redis.conf")
	refused(t, h, redis.Options{}, "maxmemory-policy is set again after the line")
}

func TestSystemServerOfOthers(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "bookworm")
	h.Sh(t, "apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends redis-server >/dev/null; redis-cli set shop:cart 1")
	refused(t, h, redis.Options{}, `Redis holds data of other applications: keys such as "shop:cart"`)
	h.Sh(t, "redis-cli del shop:cart; redis-cli -n 3 set a 1")
	refused(t, h, redis.Options{}, "keys in database 3")
	h.Sh(t, "redis-cli -n 3 del a; redis-cli config set requirepass 'live only'")
	refused(t, h, redis.Options{}, "asks for a password that the toolkit does not know (NOAUTH")
	h.Sh(t, `redis-cli -a 'live only' --no-auth-warning set shop:cart 1; printf 'requirepass "the \\"shop\\" has it"\n' >>/etc/redis/redis.conf; systemctl restart redis-server; until redis-cli ping 2>&1 | grep -q NOAUTH; do sleep 0.1; done`)
	refused(t, h, redis.Options{}, "has a password that the toolkit has not set")
	h.Sh(t, "systemctl stop redis-server")
	refused(t, h, redis.Options{}, "has a password that the toolkit has not set")
	if got := h.Sh(t, "systemctl is-active redis-server; systemctl start redis-server; ls /etc/redis; ls /etc/sysctl.d | grep urifilter || :"); got != "inactive\nredis.conf" {
		t.Errorf("left behind: %s", got)
	}
	s, steps := server(t, redis.Options{Adopt: true})
	hosttest.Must(t, h, steps)
	if got := password(t, h, s); got != `the "shop" has it` {
		t.Errorf("password: %q", got)
	}
	if got := h.Sh(t, `redis-cli -a 'the "shop" has it' --no-auth-warning get shop:cart`); got != "1" {
		t.Errorf("the shop's data: %s", got)
	}
	for conf, want := range map[string]string{
		"replicaof 10.0.0.1 6379":      "this server is a replica",
		"cluster-enabled yes":          "a member of a cluster",
		"aclfile /etc/redis/users.acl": "has users of its own",
		"rename-command CONFIG \"\"":   "CONFIG is renamed",
		"requirepass \"open":           "unbalanced quotes",
		"port 0":                       "port is set again",
	} {
		h.Sh(t, "cp -p /etc/redis/redis.conf /root/keep; echo '"+conf+"' >>/etc/redis/redis.conf")
		refused(t, h, redis.Options{Adopt: true}, want)
		h.Sh(t, "cp -p /root/keep /etc/redis/redis.conf")
	}
}

func TestSystemPasswordFile(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "trixie")
	h.Sh(t, "groupadd urifilter; mkdir -p /etc/urifilter")
	err := secret.ErrNoPassword
	password := ""
	steps := []step.Step{secret.PasswordFile("Redis", "/etc/urifilter/redis.password", "urifilter", func(context.Context) (string, error) { return password, err })}
	if plan := hosttest.Plan(t, h, steps); len(plan) != 1 || plan[0] != "redis: password for the daemon: write /etc/urifilter/redis.password" {
		t.Errorf("plan: %q", plan)
	}
	if _, err := hosttest.Apply(t, h, steps); err == nil || !strings.Contains(err.Error(), "hint: go tool mage install:redis") {
		t.Errorf("without a password: %v", err)
	}
	err = nil
	for _, password = range []string{"one 'word'", "another"} {
		hosttest.Must(t, h, steps)
		if got := h.Sh(t, "cat /etc/urifilter/redis.password; stat -c '%a %U:%G' /etc/urifilter/redis.password; ls -A /etc/urifilter"); got != password+"\n640 root:urifilter\nredis.password" {
			t.Errorf("the file: %s", got)
		}
	}
}
