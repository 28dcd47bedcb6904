package remote

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/remote/login"
	"github.com/cr-clawer/urifilter/provision/sandbox"
	"github.com/cr-clawer/urifilter/provision/sandbox/sandboxtest"
)

const password = "it's a $ecret"

// site is a set of real hosts with a user who may use sudo with a password.
type site struct {
	*sandbox.Sandbox
	key []byte
}

func (s *site) me(t *testing.T) *me {
	t.Helper()
	m := newMe(t)
	if err := os.WriteFile(m.file("id_ed25519"), s.key, 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *site) entry(h *sandbox.Host, user string) inventory.Host {
	return inventory.Host{Name: h.Name, Address: h.Address, Login: inventory.Login{Port: h.Port, User: user, KnownHosts: s.KnownHosts}}
}

// TestSystemRealHosts covers what needs users other than the one who runs the test: sudo and
// passwords. The hosts run Debian 12 and 13, whose versions of sudo differ.
func TestSystemRealHosts(t *testing.T) {
	t.Parallel()
	releases := []string{"bookworm", "trixie"}
	var specs []sandbox.Spec
	for _, r := range releases {
		specs = append(specs, sandbox.Spec{Name: r, Release: r, Password: password})
	}
	s := &site{Sandbox: sandboxtest.Up(t, sandbox.Options{Hosts: specs})}
	var err error
	if s.key, err = os.ReadFile(s.KeyFile); err != nil {
		t.Fatal(err)
	}
	for _, r := range releases {
		t.Run(r, func(t *testing.T) {
			t.Parallel()
			h := s.Host(r)
			if r != "bookworm" { // newer releases delay an address that has failed a few times
				on(t, h, "echo 'PerSourcePenalties no' >/etc/ssh/sshd_config.d/test.conf; systemctl restart ssh")
			}
			for _, c := range []struct {
				name string
				test func(*testing.T, *site, *sandbox.Host)
			}{
				{"root", testRootLogin}, {"sudo", testSudo}, {"wrong password", testWrongSudo}, {"free", testSudoFree}, {"remembered", testSudoRemembered},
				{"cancel", testSudoCancel}, {"hidden", testHidden}, {"refused", testSudoRefused}, {"login", testPasswordLogin}, {"setup", testSetup}, {"check", testCheck},
			} {
				t.Run(c.name, func(t *testing.T) { c.test(t, s, h) })
			}
		})
	}
}

func on(t *testing.T, h *sandbox.Host, script string) string {
	t.Helper()
	out, err := h.Exec(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// failures returns how often a password was wrong on the host.
func failures(t *testing.T, h *sandbox.Host) int {
	t.Helper()
	return strings.Count(on(t, h, "journalctl --sync; journalctl -q -o cat"), "authentication failure;")
}

// sudoers puts a rule in place for one test.
func sudoers(t *testing.T, h *sandbox.Host, rule string) {
	t.Helper()
	on(t, h, "umask 337; echo "+host.Quote(rule)+" >/etc/sudoers.d/zz-test && visudo -cqf /etc/sudoers.d/zz-test")
	t.Cleanup(func() {
		if _, err := h.Exec(context.Background(), "rm /etc/sudoers.d/zz-test"); err != nil {
			t.Error(err)
		}
	})
}

func root(t *testing.T, c *Conn) string {
	t.Helper()
	how, err := c.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return how
}

func testRootLogin(t *testing.T, s *site, h *sandbox.Host) {
	c := s.me(t).mustDial(t, s.entry(h, "root"))
	if how := root(t, c); how != "as root" {
		t.Errorf("got %q", how)
	}
	if out := run(t, c, host.Command{Script: "id -un; id -u", User: "deploy"}); !strings.HasPrefix(out.Stdout, "deploy\n") {
		t.Errorf("got %+v", out)
	}
	entry := s.entry(h, "deploy")
	entry.Sudo = "none"
	c = s.me(t).mustDial(t, entry)
	if _, err := c.Run(t.Context(), host.Command{Script: "id", Root: true}); err == nil || !strings.Contains(err.Error(), "sudo is none\nhint: log in as root") {
		t.Errorf("got %v", err)
	}
}

func testSudo(t *testing.T, s *site, h *sandbox.Host) {
	m := s.me(t)
	m.answers(password)
	c := m.mustDial(t, s.entry(h, "deploy"))
	if how := root(t, c); how != "by sudo with a password" {
		t.Errorf("got %q", how)
	}
	if want := []string{"Password of deploy for sudo on " + h.Name + ": "}; fmt.Sprint(m.asked) != fmt.Sprint(want) {
		t.Errorf("asked %q", m.asked)
	}
	for _, r := range []struct {
		cmd  host.Command
		want host.Output
	}{
		{host.Command{Script: `id -u; echo "$HOME $LC_ALL"; pwd; cat; echo oh >&2; exit 4`, Root: true, Stdin: strings.NewReader("in\nput"), OK: []int{4}}, host.Output{Stdout: "0\n/root C\n/\nin\nput", Stderr: "oh\n", Code: 4}},
		{host.Command{Script: "id -un; cat", Root: true}, host.Output{Stdout: "root\n"}},
		{host.Command{Script: `id -un; echo $HOME; cat`, User: "daemon", Stdin: strings.NewReader("x")}, host.Output{Stdout: "daemon\n/usr/sbin\nx"}},
		{host.Command{Script: "id -un", User: "deploy"}, host.Output{Stdout: "deploy\n"}},
		{host.Command{Script: "id -un", User: "root"}, host.Output{Stdout: "root\n"}},
		{host.Command{Script: "id -un; cat"}, host.Output{Stdout: "deploy\n"}},
	} {
		if got := run(t, c, r.cmd); got != r.want {
			t.Errorf("%+v:\ngot  %+v\nwant %+v", r.cmd, got, r.want)
		}
	}
	if _, err := c.Run(t.Context(), host.Command{Script: "true", User: "nobody-of-that-name"}); err == nil || !strings.Contains(err.Error(), "nobody-of-that-name") {
		t.Errorf("unknown user: got %v", err)
	}

	bytes, _ := content(1 << 20)
	sum := fmt.Sprintf("%x  -\n", sha256.Sum256(bytes))
	if out := run(t, c, host.Command{Script: "sha256sum", Root: true, Stdin: strings.NewReader(string(bytes))}); out.Stdout != sum {
		t.Errorf("bytes do not arrive as they are: got %q, want %q", out.Stdout, sum)
	}

	file := host.File{Path: "/etc/urifilter-test", Content: "text\n", Mode: 0o640, Group: "daemon"}
	if err := host.WriteFile(t.Context(), c, file); err != nil {
		t.Error(err)
	}
	if got, there, err := host.ReadFile(t.Context(), c, file.Path); err != nil || !there || !file.Same(got) {
		t.Errorf("got %+v, %v, %v", got, there, err)
	}
	data, source := content(3 << 20)
	if err := c.Upload(t.Context(), host.Upload{Source: source, Size: int64(len(data)), Path: "/opt/some file", Mode: 0o755, Group: "daemon"}); err != nil {
		t.Fatal(err)
	}
	if got := on(t, h, "stat -c '%a %U:%G %s' '/opt/some file'; ls -A /opt /home/deploy/.cache/urifilter-upload"); got != fmt.Sprintf("755 root:daemon %d\n/home/deploy/.cache/urifilter-upload:\n\n/opt:\nsome file", len(data)) {
		t.Errorf("got %s", got)
	}
	// A target that cannot be written to.
	on(t, h, "mkdir -p /opt/dir; rm '/opt/some file'")
	if err := c.Upload(t.Context(), host.Upload{Source: source, Size: int64(len(data)), Path: "/opt/dir"}); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if got := on(t, h, "ls -A /opt /home/deploy/.cache/urifilter-upload"); got != "/home/deploy/.cache/urifilter-upload:\n\n/opt:\ndir" {
		t.Errorf("left behind: %s", got)
	}
}

// testWrongSudo expects a wrong password to be tried once, however many commands there are.
func testWrongSudo(t *testing.T, s *site, h *sandbox.Host) {
	m := s.me(t)
	m.env["MY_PASSWORD"] = "hunter2-wrong"
	entry := s.entry(h, "deploy")
	entry.SudoPasswordEnv = "MY_PASSWORD"
	before := failures(t, h)
	d := m.dialer(t)
	for range 2 {
		c, err := d.Dial(t.Context(), entry)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 2 {
			_, err := c.Run(t.Context(), host.Command{Script: "id", Root: true})
			var gone *host.ConnectionError
			if err == nil || errors.As(err, &gone) || !strings.Contains(err.Error(), "is not tried again") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
		}
		_, err = c.Root(t.Context())
		t.Log(err)
		run(t, c, host.Command{Script: "true"})
	}
	if n := failures(t, h) - before; n != 1 {
		t.Errorf("the password was tried %d times, want once", n)
	}

	// The password is changed in the middle of a run: still one try for each command.
	m = s.me(t)
	m.env[login.SudoPasswordEnv] = password
	d = m.dialer(t)
	d.sudoWait = 5 * time.Second
	c, err := d.Dial(t.Context(), s.entry(h, "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root(t, c)
	on(t, h, "echo 'deploy:something else' | chpasswd")
	defer on(t, h, "echo "+host.Quote("deploy:"+password)+" | chpasswd")
	before = failures(t, h)
	if _, err := c.Run(t.Context(), host.Command{Script: "id", Root: true}); err == nil || !strings.Contains(err.Error(), "is not tried again") {
		t.Errorf("got %v", err)
	}
	if n := failures(t, h) - before; n != 1 {
		t.Errorf("a changed password was tried %d times, want once", n)
	}

	m = s.me(t)
	c = m.mustDial(t, s.entry(h, "deploy"))
	if _, err := c.Root(t.Context()); err == nil || !strings.Contains(err.Error(), "sudo wants the password of deploy, and there is no terminal to ask for it; set URIFILTER_SUDO_PASSWORD\nhint: ") {
		t.Errorf("nobody to ask: got %v", err)
	}
}

func testSudoFree(t *testing.T, s *site, h *sandbox.Host) {
	sudoers(t, h, "deploy ALL=(ALL) NOPASSWD: ALL")
	c := s.me(t).mustDial(t, s.entry(h, "deploy"))
	if how := root(t, c); how != "by sudo" {
		t.Errorf("got %q", how)
	}
	if out := run(t, c, host.Command{Script: "id -u; cat", Root: true, Stdin: strings.NewReader("x")}); out.Stdout != "0\nx" {
		t.Errorf("got %+v", out)
	}
	if out := run(t, c, host.Command{Script: "id -un; cat", User: "daemon"}); out.Stdout != "daemon\n" {
		t.Errorf("got %+v", out)
	}
}

// testSudoRemembered has a sudo that asks for the password only now and then: the command never
// sees the password.
func testSudoRemembered(t *testing.T, s *site, h *sandbox.Host) {
	sudoers(t, h, "Defaults:deploy timestamp_type=global, timestamp_timeout=5")
	m := s.me(t)
	m.env[login.SudoPasswordEnv] = password
	c := m.mustDial(t, s.entry(h, "deploy"))
	for range 3 {
		if out := run(t, c, host.Command{Script: "cat", Root: true, Stdin: strings.NewReader("only this")}); out.Stdout != "only this" {
			t.Errorf("got %+v", out)
		}
	}
	on(t, h, "rm -rf /run/sudo/ts/deploy")
}

func testSudoCancel(t *testing.T, s *site, h *sandbox.Host) {
	m := s.me(t)
	m.env[login.SudoPasswordEnv] = password
	c := m.mustDial(t, s.entry(h, "deploy"))
	for _, cmd := range []host.Command{
		{Script: "touch /run/begun; sleep 4321", Root: true},
		{Script: "touch /tmp/begun; exec sleep 4321", User: "daemon"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.Run(ctx, cmd)
			ended <- err
		}()
		for on(t, h, "ls /run/begun /tmp/begun 2>/dev/null || true") == "" {
			time.Sleep(20 * time.Millisecond)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		for n := 0; on(t, h, "grep -lsa [4]321 /proc/[0-9]*/cmdline | grep -v /self/ || true") != ""; n++ {
			if n == 6000 {
				t.Fatalf("%s: it still runs", cmd.Script)
			}
			time.Sleep(20 * time.Millisecond)
		}
		on(t, h, "rm -f /run/begun /tmp/begun")
	}
}

// testHidden checks that neither scripts nor passwords appear in the process list.
func testHidden(t *testing.T, s *site, h *sandbox.Host) {
	m := s.me(t)
	m.env[login.SudoPasswordEnv] = password
	c := m.mustDial(t, s.entry(h, "deploy"))
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), host.Command{Script: "S='in the script'\ntouch /run/begun; until [ -e /run/seen ]; do sleep 0.1; done; rm /run/seen /run/begun", Root: true, Stdin: strings.NewReader("in the input")})
		ended <- err
	}()
	for on(t, h, "ls /run/begun 2>/dev/null || true") == "" {
		time.Sleep(20 * time.Millisecond)
	}
	list := on(t, h, "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; touch /run/seen")
	for _, secret := range []string{password, "in the script", "in the input"} {
		if strings.Contains(list, secret) {
			t.Errorf("%q is in the list of processes", secret)
		}
	}
	if !strings.Contains(list, "\nurifilter-") {
		t.Error("the command is not in the list of processes: the test looks at the wrong place")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func testSudoRefused(t *testing.T, s *site, h *sandbox.Host) {
	on(t, h, "id plain 2>/dev/null || useradd -m -s /bin/sh plain; echo 'plain:pw of plain' | chpasswd; mkdir -p ~plain/.ssh; cp /root/.ssh/authorized_keys ~plain/.ssh; chown -R plain ~plain/.ssh")
	m := s.me(t)
	m.env[login.SudoPasswordEnv] = "pw of plain"
	c := m.mustDial(t, s.entry(h, "plain"))
	if _, err := c.Root(t.Context()); err == nil || !strings.Contains(err.Error(), "plain may not become root") || !strings.Contains(err.Error(), "hint: add plain to the group sudo") {
		t.Errorf("got %v", err)
	}

	m = s.me(t)
	m.env[login.SudoPasswordEnv] = password
	sudoers(t, h, "Defaults:deploy requiretty")
	c = m.mustDial(t, s.entry(h, "deploy"))
	if _, err := c.Root(t.Context()); err == nil || !strings.Contains(err.Error(), "Defaults:deploy !requiretty") {
		t.Errorf("requiretty: got %v", err)
	}

	on(t, h, "mv /usr/bin/sudo /usr/bin/sudo-away")
	defer on(t, h, "mv /usr/bin/sudo-away /usr/bin/sudo")
	c = m.mustDial(t, s.entry(h, "deploy"))
	if _, err := c.Root(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no sudo\nhint: install sudo") {
		t.Errorf("no sudo: got %v", err)
	}
}
