package remote

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/remote/login"
	"github.com/cr-clawer/urifilter/provision/sandbox"
)

func testPasswordLogin(t *testing.T, s *site, h *sandbox.Host) {
	m := newMe(t) // with a key that the host does not know
	entry := s.entry(h, "deploy")
	_, err := m.dial(t, entry)
	faultOf(t, err, login.Auth, "set URIFILTER_SSH_PASSWORD")
	m.env[login.PasswordEnv] = "hunter2-wrong"
	before := failures(t, h)
	d := m.dialer(t)
	for range 2 {
		_, err = d.Dial(t.Context(), entry)
		if f := faultOf(t, err, login.Auth); strings.Contains(f.Error(), "hunter2") {
			t.Errorf("the password is told: %v", err)
		}
	}
	if n := failures(t, h) - before; n != 1 {
		t.Errorf("the password was tried %d times, want once", n)
	}
	m.env[login.PasswordEnv] = ""
	m.answers(password, "")
	d = m.dialer(t)
	c, err := d.Dial(t.Context(), entry)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	// Another host with the same password: Enter is enough.
	entry.Name = "same-again"
	if c, err = d.Dial(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if !strings.Contains(m.asked[1], "Password of deploy@same-again (Enter alone: as for deploy@"+h.Name+")") {
		t.Errorf("asked %q", m.asked)
	}
}

func testSetup(t *testing.T, s *site, h *sandbox.Host) {
	m := newMe(t)
	if err := os.Remove(m.file("id_ed25519")); err != nil {
		t.Fatal(err)
	}
	entry := s.entry(h, "deploy")
	entry.KnownHosts = ""
	setup := func(o login.Confirmation) Prepared {
		d := m.dialer(t)
		all := d.Setup(t.Context(), []inventory.Host{entry}, o)
		if len(all) != 1 {
			t.Fatalf("got %+v", all)
		}
		t.Logf("%+v, said %q", all[0], m.said)
		return all[0]
	}
	p := setup(login.Confirmation{})
	if p.Err == nil || !strings.Contains(p.Err.Error(), "-fingerprint=SHA256:") || len(p.Trusted) != 0 {
		t.Errorf("nobody to ask: got %+v", p)
	}
	question := ""
	answer := false
	o := login.Confirmation{Confirm: func(_ context.Context, q string) (bool, error) { question = q; return answer, nil }}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.HostKey))
	if err != nil {
		t.Fatal(err)
	}
	if p = setup(o); p.Err == nil || !strings.Contains(p.Err.Error(), "was not confirmed") || !strings.Contains(question, ssh.FingerprintSHA256(public)) {
		t.Errorf("no: got %+v, asked %q", p, question)
	}
	if _, err := os.Stat(m.file("known_hosts")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("known_hosts was touched: %v", err)
	}
	answer = true
	if p = setup(o); p.Err == nil || !isAuth(p.Err) || len(p.Trusted) != 1 {
		t.Errorf("no password: got %+v", p)
	}
	question = ""
	m.answers(password)
	if p = setup(o); p.Err != nil || !p.Installed || p.Key != m.file("id_ed25519") || question != "" {
		t.Errorf("got %+v, asked %q", p, question)
	}
	m.o.Ask = nil
	if p = setup(login.Confirmation{}); p.Err != nil || p.Installed || len(p.Trusted) != 0 || p.Key != m.file("id_ed25519") {
		t.Errorf("again: got %+v", p)
	}
	for name, mode := range map[string]os.FileMode{"id_ed25519": 0o600, "known_hosts": 0o600, "id_ed25519.pub": 0o644} {
		if info, err := os.Stat(m.file(name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if got := on(t, h, "stat -c %a:%U ~deploy/.ssh ~deploy/.ssh/authorized_keys; grep -c urifilter-toolkit ~deploy/.ssh/authorized_keys"); got != "700:deploy\n600:deploy\n1" {
		t.Errorf("got %s", got)
	}
	m.mustDial(t, entry)

	// Fingerprints that are known beforehand need nobody to confirm them.
	m = s.me(t)
	if p = setup(login.Confirmation{Fingerprints: []string{ssh.FingerprintSHA256(public)}}); p.Err != nil || len(p.Trusted) != 1 || p.Installed {
		t.Errorf("by fingerprint: got %+v", p)
	}
	// The host does not read keys from that file.
	on(t, h, "echo 'AuthorizedKeysFile /etc/ssh/keys/%u' >/etc/ssh/sshd_config.d/zz-test.conf; systemctl restart ssh")
	defer on(t, h, "rm /etc/ssh/sshd_config.d/zz-test.conf; systemctl restart ssh")
	m = newMe(t)
	m.answers(password)
	if p = setup(login.Confirmation{Yes: true}); p.Err == nil || !strings.Contains(p.Err.Error(), "AuthorizedKeysFile") {
		t.Errorf("keys elsewhere: got %+v", p)
	}
}

func testCheck(t *testing.T, s *site, h *sandbox.Host) {
	m := s.me(t)
	m.env[login.SudoPasswordEnv] = password
	gone := s.entry(h, "root")
	gone.Name, gone.Port = "gone", 1
	all := m.dialer(t).Check(t.Context(), []inventory.Host{s.entry(h, "deploy"), gone})
	c := all[0]
	if c.Err != nil || c.Root != "by sudo with a password" || c.Facts.OS != "debian" || c.Facts.Systemd == 0 || len(c.Disks) == 0 || c.Disks[0].Free == 0 || c.Target != "deploy@"+h.Address+":22" {
		t.Errorf("got %+v", c)
	}
	if c.Skew.Abs() > time.Second || len(c.Warnings) != 0 {
		t.Errorf("got %+v", c)
	}
	faultOf(t, all[1].Err, login.Refused)
}
