package e2e_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// tryNewcomer: an operator who has only a password for a host is told to set up SSH, compares
// the fingerprint with that of the host itself, and needs no password for it from then on.
func tryNewcomer(t *testing.T) {
	l := e2e.New(t, e2e.Options{Hosts: []e2e.Host{{Name: "one", Sudo: true}}})
	h := l.Hosts["one"]
	_, rest, _ := strings.Cut(l.Inventory(t), "\n")
	l.WriteInventory(t, "defaults: {password_env: E2E_SSH_PASSWORD}\n"+rest)
	l.Environ = append(l.Environ, "E2E_SSH_PASSWORD="+l.Password)
	l.Sh(t, "one", "rm -rf /home/deploy/.ssh")
	right := strings.Fields(l.Sh(t, "one", "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"))[1]

	want(t, l.Mage(t, "deploy"), fleet.CodeUnreachable, right, "is not known in "+filepath.Join(l.Home, ".ssh", "known_hosts"), "hint: ", "go tool mage ssh:setup -hosts=one")
	if r := l.Mage(t, "ssh:setup"); r.Code == 0 || !strings.Contains(r.Text(), "-fingerprint="+right) {
		t.Errorf("nobody was asked, exit code %d", r.Code)
	}
	if r := l.Mage(t, "ssh:setup", "-fingerprint=SHA256:"+strings.Repeat("A", 43)); r.Code == 0 || !strings.Contains(r.Text(), right+", which is not among those given with -fingerprint") {
		t.Errorf("another fingerprint: exit code %d", r.Code)
	}
	if got := l.Sh(t, "one", "ls -A /home/deploy/.ssh 2>/dev/null || :"); got != "" {
		t.Errorf("a host that is not trusted has got %s", got)
	}
	r := l.Must(t, "ssh:setup", "-fingerprint="+right)
	if strings.Contains(r.Text(), l.Password) {
		t.Error("the password was shown")
	}
	known, err := exec.Command("ssh-keygen", "-F", h.Address, "-f", filepath.Join(l.Home, ".ssh", "known_hosts")).CombinedOutput()
	if err != nil || !strings.Contains(string(known), strings.Fields(h.HostKey)[1]) {
		t.Errorf("known_hosts: %v\n%s", err, known)
	}
	if got := l.Sh(t, "one", "stat -c '%a %U' /home/deploy/.ssh /home/deploy/.ssh/authorized_keys; wc -l </home/deploy/.ssh/authorized_keys"); got != "700 deploy\n600 deploy\n1" {
		t.Errorf("authorized_keys: %s", got)
	}

	// The key is enough to log in; a second setup adds nothing.
	l.Environ = l.Environ[:1]
	want(t, l.Must(t, "ssh:check"), 0, "deploy@"+h.Address)
	l.Must(t, "ssh:setup")
	if got := l.Sh(t, "one", "wc -l </home/deploy/.ssh/authorized_keys"); got != "1" {
		t.Errorf("%s keys after a second time", got)
	}
}
