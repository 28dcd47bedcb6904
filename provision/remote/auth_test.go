package remote

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

func keygen(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ssh-keygen", append([]string{"-q"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
}

func TestNoKey(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	s := newServer(t, "")
	m.knows(t, s.address(), s.host.PublicKey())
	_, err := m.dial(t, hostOf(s))
	faultOf(t, err, login.Auth, "login refused; tried: the keys of "+m.file("id_ed25519"), "ssh:setup -hosts=web1")
	if err := os.Remove(m.file("id_ed25519")); err != nil {
		t.Fatal(err)
	}
	_, err = m.dial(t, hostOf(s))
	faultOf(t, err, login.Auth, "no key, as there is none")
	h := hostOf(s)
	h.IdentityFile = filepath.Join(m.home, "gone")
	if _, err = m.dial(t, h); !strings.Contains(err.Error(), h.IdentityFile) {
		t.Errorf("an identity file that does not exist: got %v", err)
	}
}

// A host that accepts no keys is not said to have met an operator without one.
func TestAHostThatAcceptsNoKeys(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	s := newServer(t, "PubkeyAuthentication no\nKbdInteractiveAuthentication yes\n")
	m.knows(t, s.address(), s.host.PublicKey())
	_, err := m.dial(t, hostOf(s))
	f := faultOf(t, err, login.Auth, "no key, as the host accepts none", "hint: let its sshd accept keys; or set URIFILTER_SSH_PASSWORD")
	if strings.Contains(f.Error(), "there is none") {
		t.Error(err)
	}
}

// The call of ssh that an error shows can be pasted, whatever the port.
func TestTheCallThatIsShownWorks(t *testing.T) {
	t.Parallel()
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("ssh is not installed")
	}
	m := newMe(t)
	s := newServer(t, "", m.key.PublicKey())
	m.knows(t, s.address(), s.host.PublicKey())
	h := hostOf(s)
	h.IdentityFile, h.KnownHosts = m.file("id_ed25519"), m.file("known_hosts")
	call := m.mustDial(t, h).link.Target().Call("exit 7")
	call, is := strings.CutPrefix(call, "ssh ")
	cmd := exec.Command("sh", "-c", ssh+" -F none -o BatchMode=yes "+call)
	out, err := cmd.CombinedOutput()
	if !is || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%s: %v\n%s", call, err, out)
	}
}

// The thousands of hashes that open a key take too long under the race detector, and share no memory.
func TestNoRacePassphrase(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	key := newKey(t, m.file("id_ed25519"), "open sesame")
	s := newServer(t, "", key.PublicKey())
	other := newServer(t, "")
	m.knows(t, s.address(), s.host.PublicKey())
	m.knows(t, other.address(), other.host.PublicKey())

	m.answers("typo", "open sesame")
	d := m.dialer(t)
	if _, err := d.Dial(t.Context(), hostOf(other)); err == nil || len(m.asked) != 0 {
		t.Errorf("a host that does not want the key: got %v, asked %q", err, m.asked)
	}
	for range 2 {
		c, err := d.Dial(t.Context(), hostOf(s))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if len(m.asked) != 2 || !strings.Contains(m.asked[1], "It does not open the key. Passphrase of "+m.file("id_ed25519")) {
		t.Errorf("asked %q", m.asked)
	}

	m.o.Ask = nil
	_, err := m.dial(t, hostOf(s))
	faultOf(t, err, login.Auth, "there is no terminal to ask for it; set URIFILTER_KEY_PASSPHRASE")
	m.env[login.PassphraseEnv] = "wrong"
	_, err = m.dial(t, hostOf(s))
	faultOf(t, err, login.Auth, "it does not open the key")
	if strings.Contains(err.Error(), "wrong") {
		t.Errorf("the passphrase is told: %v", err)
	}
	m.env[login.PassphraseEnv] = "open sesame"
	m.mustDial(t, hostOf(s))

	// The old format of a key file does not reveal the public key.
	rsa := filepath.Join(m.home, "old")
	keygen(t, "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "open sesame", "-f", rsa)
	text, err := os.ReadFile(rsa + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		t.Fatal(err)
	}
	s.allow(t, public)
	h := hostOf(s)
	h.IdentityFile = rsa
	m.mustDial(t, h)
	if err := os.Remove(rsa + ".pub"); err != nil {
		t.Fatal(err)
	}
	m.mustDial(t, h)
}

func TestAgent(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	if err := os.Remove(m.file("id_ed25519")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(m.home, "agents-own")
	key := newKey(t, file, "")
	s := newServer(t, "", key.PublicKey())
	m.knows(t, s.address(), s.host.PublicKey())
	socket := filepath.Join(m.home, "agent")
	agent := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := agent.Start(); err != nil {
		t.Skip(err)
	}
	defer func() {
		agent.Process.Kill()
		agent.Wait()
	}()
	add := exec.Command("sh", "-c", "for i in $(seq 600); do ssh-add -q "+file+" 2>/dev/null && exit; sleep 0.1; done; exec ssh-add -q "+file)
	add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("ssh-add: %v: %s", err, out)
	}
	if _, err := m.dial(t, hostOf(s)); err == nil {
		t.Error("let in without the agent")
	}
	m.env["SSH_AUTH_SOCK"] = socket
	m.mustDial(t, hostOf(s))

	// A key that the agent holds is named by its public half, or is encrypted in its file.
	if err := os.WriteFile(m.file("named"), ssh.MarshalAuthorizedKey(key.PublicKey()), 0o600); err != nil {
		t.Fatal(err)
	}
	m.o.ConfigFile = m.file("config")
	config := fmt.Sprintf("Host 127.0.0.1\n  IdentitiesOnly yes\n  IdentityFile %s\n  IdentityAgent %s\n", m.file("named"), socket)
	if err := os.WriteFile(m.o.ConfigFile, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	m.env["SSH_AUTH_SOCK"] = ""
	m.mustDial(t, hostOf(s))

	// With IdentitiesOnly, the agent's other keys are not offered.
	stranger := newKey(t, m.file("stranger"), "")
	if err := os.WriteFile(m.o.ConfigFile, []byte(strings.ReplaceAll(config, "named", "stranger")), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := m.dial(t, hostOf(s))
	faultOf(t, err, login.Auth, "the keys of "+m.file("stranger"))
	s.allow(t, stranger.PublicKey())
	m.mustDial(t, hostOf(s))

	// An agent that has gone away is not an error.
	agent.Process.Kill()
	m.mustDial(t, hostOf(s))
}

func TestTooManyKeys(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	m.o.ConfigFile = m.file("config")
	var config strings.Builder
	for i := range 8 {
		newKey(t, m.file(fmt.Sprintf("key%d", i)), "")
		fmt.Fprintf(&config, "IdentityFile %s\n", m.file(fmt.Sprintf("key%d", i)))
	}
	if err := os.WriteFile(m.o.ConfigFile, []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, "", m.key.PublicKey())
	m.knows(t, s.address(), s.host.PublicKey())
	_, err := m.dial(t, hostOf(s))
	faultOf(t, err, login.Auth, "too many keys", "identity_file")
	h := hostOf(s)
	h.IdentityFile = m.file("id_ed25519")
	m.mustDial(t, h)
}

func TestCertificate(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	ca := filepath.Join(t.TempDir(), "ca")
	keygen(t, "-t", "ed25519", "-f", ca, "-N", "")
	if err := os.WriteFile(m.file("id_ed25519.pub"), ssh.MarshalAuthorizedKey(m.key.PublicKey()), 0o600); err != nil {
		t.Fatal(err)
	}
	keygen(t, "-s", ca, "-I", "me", "-n", localUser(), m.file("id_ed25519.pub"))
	s := newServer(t, "TrustedUserCAKeys "+ca+".pub")
	m.knows(t, s.address(), s.host.PublicKey())
	m.mustDial(t, hostOf(s))
}

func TestBastions(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	behind := newServer(t, "", m.key.PublicKey())
	inner := newServer(t, fmt.Sprintf("PermitOpen 127.0.0.1:%d", behind.port), m.key.PublicKey())
	outer := newServer(t, "", m.key.PublicKey())
	for _, s := range []*sshServer{behind, inner, outer} {
		m.knows(t, s.address(), s.host.PublicKey())
	}
	hop := func(s *sshServer) inventory.Hop {
		return inventory.Hop{User: localUser(), Host: "127.0.0.1", Port: s.port}
	}
	h := hostOf(behind)
	h.Bastion = inventory.Bastion{hop(outer), hop(inner)}
	d := m.dialer(t)
	for range 3 {
		c, err := d.Dial(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if n := strings.Count(outer.readLog(t), "Accepted publickey"); n != 1 {
		t.Errorf("the bastion was logged in to %d times, want once", n)
	}

	// The inner bastion forwards to no other destination, and errors name it.
	h.Port = freePort(t)
	_, err := m.dial(t, h)
	faultOf(t, err, login.Unreachable, "forwards no connections", "AllowTcpForwarding")
	h.Bastion = h.Bastion[:1]
	_, err = m.dial(t, h)
	faultOf(t, err, login.Refused, "not reached from 127.0.0.1")

	// The host key of each bastion is checked.
	h = hostOf(behind)
	h.Bastion = inventory.Bastion{hop(outer), hop(newServer(t, "", m.key.PublicKey()))}
	_, err = m.dial(t, h)
	faultOf(t, err, login.HostKey, "bastion 127.0.0.1: ", "is not known")

	// A bastion whose connection has died is connected to again.
	p := newProxy(t, outer.address())
	m.knows(t, "127.0.0.1:"+itoa(p.port()), outer.host.PublicKey())
	h.Bastion = inventory.Bastion{{User: localUser(), Host: "127.0.0.1", Port: p.port()}}
	c, err := d.Dial(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	p.cut()
	if _, err := c.Run(t.Context(), host.Command{Script: "true"}); err == nil {
		t.Error("a command was run through a bastion that is gone")
	}
	c.Close()
	for range 2 {
		if c, err = d.Dial(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}
