package sandbox_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/sandbox"
	"github.com/cr-clawer/urifilter/provision/sandbox/sandboxtest"
)

func up(t *testing.T, o sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	return sandboxtest.Up(t, o)
}

// execute runs a shell script on a host and returns its output without the white space around it.
func execute(t *testing.T, h *sandbox.Host, script string) string {
	t.Helper()
	text, err := h.Exec(t.Context(), script)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// login runs a command over SSH and accepts no host key but the one that the sandbox reports.
func login(t *testing.T, h *sandbox.Host, user string, auth ssh.AuthMethod, command, stdin string) (string, error) {
	t.Helper()
	want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.HostKey))
	if err != nil {
		t.Fatal(err)
	}
	client, err := ssh.Dial("tcp", net.JoinHostPort(h.Address, "22"), &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{auth}, Timeout: time.Minute,
		HostKeyCallback: ssh.FixedHostKey(want), HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if err != nil {
		return "", err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	session.Stdin = strings.NewReader(stdin)
	out, err := session.CombinedOutput(command)
	return strings.TrimSpace(string(out)), err
}

func key(t *testing.T, s *sandbox.Sandbox) ssh.AuthMethod {
	t.Helper()
	text, err := os.ReadFile(s.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return ssh.PublicKeys(signer)
}

func TestSystemHosts(t *testing.T) {
	t.Parallel()
	s := up(t, sandbox.Options{Hosts: []sandbox.Spec{
		{Name: "one", Release: "bookworm", Disks: map[string]int64{"/opt": 16 << 20}},
		{Name: "two", Release: "trixie", Password: "it's two"},
	}})
	t.Run("each", func(t *testing.T) { eachHost(t, s) })
	// The hosts reach each other, and their services are separate.
	one, two := s.Host("one"), s.Host("two")
	execute(t, one, "systemctl stop ssh")
	if got := execute(t, two, "systemctl is-active ssh; timeout 60 bash -c '</dev/tcp/"+two.Address+"/22' && echo open"); got != "active\nopen" {
		t.Errorf("on one host ssh was stopped, on the other it is %q", got)
	}
	if got := execute(t, two, "timeout 60 bash -c '</dev/tcp/"+one.Address+"/22' 2>/dev/null || echo closed"); got != "closed" {
		t.Errorf("the stopped ssh is %q", got)
	}
	execute(t, one, "systemctl start ssh")
	if got := execute(t, one, "head -c 64M /dev/zero >/opt/full 2>&1 || echo full; rm /opt/full"); !strings.HasSuffix(got, "full") {
		t.Errorf("64 MiB on a disk of 16: %q", got)
	}
}

// eachHost tries each host by itself.
func eachHost(t *testing.T, s *sandbox.Sandbox) {
	for _, h := range s.Hosts {
		t.Run(h.Release, func(t *testing.T) {
			t.Parallel()
			if got := execute(t, h, "systemctl is-system-running || systemctl --failed --no-pager"); got != "running" {
				t.Errorf("the system is %s", got)
			}
			if got := execute(t, h, ". /etc/os-release; echo $VERSION_CODENAME; hostname; cat /etc/machine-id | wc -c"); got != h.Release+"\n"+h.Name+"\n33" {
				t.Errorf("got %q", got)
			}
			if got, err := login(t, h, "root", key(t, s), "id -un", ""); got != "root" || err != nil {
				t.Errorf("root by key: %q, %v", got, err)
			}
			if got, err := login(t, h, "deploy", key(t, s), "id -un; sudo -n true 2>/dev/null || echo asked", ""); !strings.HasPrefix(got, "deploy\n") || !strings.HasSuffix(got, "asked") || err != nil {
				t.Errorf("deploy by key: %q, %v", got, err)
			}
			if got, err := login(t, h, "deploy", ssh.Password(h.Password), "sudo -S -p '' id -un", h.Password+"\n"); got != "root" || err != nil {
				t.Errorf("deploy by password, with sudo: %q, %v", got, err)
			}
			if _, err := login(t, h, "deploy", ssh.Password("wrong"), "true", ""); err == nil {
				t.Error("a wrong password is accepted")
			}
			if got := execute(t, h, "sysctl -q net.core.somaxconn=5000; sysctl -n net.core.somaxconn"); got != "5000" {
				t.Errorf("somaxconn %s after it was set to 5000", got)
			}
			for _, absent := range []string{"cron", "redis-server", "python3"} {
				if got := execute(t, h, "command -v "+absent+" || echo none"); got != "none" {
					t.Errorf("%s is there: %s", absent, got)
				}
			}
			execute(t, h, "apt-get update -q && apt-get install -q -y --no-install-recommends cron redis-server >&2")
			if got := execute(t, h, "systemctl is-active cron redis-server; redis-cli ping"); got != "active\nactive\nPONG" {
				t.Errorf("after apt-get install: %q", got)
			}
		})
	}
}

// began returns the start time of a host's first process, or "" while there is none.
func began(ctx context.Context, h *sandbox.Host) string {
	out, err := h.Exec(ctx, "cut -d' ' -f22 /proc/1/stat")
	if err != nil {
		return ""
	}
	return out
}

func TestSystemPower(t *testing.T) {
	t.Parallel()
	s := up(t, sandbox.Options{Hosts: []sandbox.Spec{{Name: "alone", Disks: map[string]int64{"/var/lib": 200 << 20}}}})
	h := s.Hosts[0]
	ctx := t.Context()
	reached := func(wait time.Duration) bool {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(h.Address, "22"), wait)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	boot := func() string { return execute(t, h, "cat /proc/1/stat | cut -d' ' -f22; cat /opt/kept /var/lib/kept") }
	execute(t, h, "echo a >/opt/kept; echo b >/var/lib/kept; sync")
	last := boot()
	for name, restart := range map[string]func() error{
		"reboot": func() error { return h.Reboot(ctx) },
		"reboot over ssh": func() error {
			before := began(ctx, h)
			_, _ = login(t, h, "root", key(t, s), "systemctl reboot", "")
			wait, cancel := context.WithTimeout(ctx, 3*time.Minute)
			defer cancel()
			for now := before; now == before || now == ""; now = began(ctx, h) {
				if wait.Err() != nil {
					return errors.New("no reboot")
				}
				time.Sleep(20 * time.Millisecond)
			}
			return h.Start(ctx)
		},
		"power off": func() error {
			if err := h.PowerOff(ctx); err != nil {
				return err
			}
			if h.Up() || reached(time.Second) {
				t.Error("a host that is off answers")
			}
			return h.Start(ctx)
		},
		"power cut": func() error {
			if err := h.Kill(ctx); err != nil {
				return err
			}
			return h.Start(ctx)
		},
	} {
		if err := restart(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		now := boot()
		if now == last || !strings.HasSuffix(now, "\na\nb") {
			t.Errorf("%s: before %q, after %q", name, last, now)
		}
		last = now
		if !reached(time.Minute) {
			t.Errorf("%s: not reached", name)
		}
	}
	if err := h.Isolate(ctx, true); err != nil {
		t.Fatal(err)
	}
	if reached(time.Second) {
		t.Error("an isolated host is reached")
	}
	if err := h.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	if reached(time.Second) {
		t.Error("after a reboot an isolated host is reached")
	}
	if err := h.Isolate(ctx, false); err != nil {
		t.Fatal(err)
	}
	if !reached(time.Minute) {
		t.Error("a host that is isolated no more is not reached")
	}
}
