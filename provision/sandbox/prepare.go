package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
)

// prepareScript makes a host out of the tree that all share; it is run once, in the host's root.
func (h *Host) prepareScript() (string, error) {
	key, err := os.ReadFile(h.sandbox.KeyFile + ".pub")
	if err != nil {
		return "", err
	}
	resolv, err := resolvConf()
	if err != nil {
		return "", err
	}
	id := make([]byte, 16)
	rand.Read(id)
	var s strings.Builder
	s.WriteString("set -eu\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C\n")
	put := func(path, mode, text string) {
		fmt.Fprintf(&s, "printf '%%s' %s >%s\nchmod %s %s\n", host.Quote(text), path, mode, path)
	}
	put("/etc/hostname", "644", h.Name+"\n")
	put("/etc/hosts", "644", "127.0.0.1\tlocalhost\n127.0.1.1\t"+h.Name+"\n")
	put("/etc/default/locale", "644", "LANG=C.UTF-8\n")
	put("/etc/machine-id", "444", hex.EncodeToString(id)+"\n")
	put("/etc/resolv.conf", "644", resolv)
	s.WriteString("useradd --create-home --shell /bin/bash --groups sudo deploy\n")
	// deploy's sudo asks for the password each time, and Debian's own hash takes 20 ms of CPU time.
	fmt.Fprintf(&s, "printf '%%s\\n' %s | chpasswd -c SHA512 -s 1000\n", host.Quote("deploy:"+h.Password))
	for _, user := range []string{"root", "deploy"} {
		home := "/root"
		if user != "root" {
			home = "/home/" + user
		}
		fmt.Fprintf(&s, "install -d -m 700 -o %s -g %s %s/.ssh\n", user, user, home)
		put(home+"/.ssh/authorized_keys", "600", string(key))
		fmt.Fprintf(&s, "chown %s: %s/.ssh/authorized_keys\n", user, home)
	}
	// One key is enough; -A would also make one of RSA, which takes up to a second.
	s.WriteString("ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key\n")
	return s.String(), nil
}

// resolvConf returns the machine's own resolv.conf, or that of the resolver behind it: an
// address of this machine's loopback leads nowhere in a host.
func resolvConf() (string, error) {
	for _, path := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), "nameserver 127.") && !strings.Contains(string(text), "nameserver ::1") {
			return string(text), nil
		}
	}
	return "", fmt.Errorf("/etc/resolv.conf: want a name server that is not on this machine's loopback, for the hosts to use too")
}

// makeKey makes the key pair of the sandbox.
func makeKey(ctx context.Context, path string) error {
	if exists(path) && exists(path+".pub") {
		return nil
	}
	_ = os.Remove(path) // half of a pair
	return run(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "urifilter sandbox", "-f", path)
}

// readKeys reads the host's public keys from its files.
func (h *Host) readKeys() error {
	paths, err := filepath.Glob(filepath.Join(h.dir(), "upper", "etc", "ssh", "ssh_host_*_key.pub"))
	if err != nil {
		return err
	}
	h.HostKeys = nil
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fields := strings.Fields(string(text))
		if len(fields) < 2 {
			return fmt.Errorf("%s: want a public key", path)
		}
		h.HostKeys = append(h.HostKeys, fields[0]+" "+fields[1])
	}
	i := slices.IndexFunc(h.HostKeys, func(k string) bool { return strings.HasPrefix(k, "ssh-ed25519 ") })
	if i < 0 {
		return fmt.Errorf("host %s: no Ed25519 host key", h.Name)
	}
	h.HostKey = h.HostKeys[i]
	return nil
}

func (s *Sandbox) writeKnownHosts() error {
	var text strings.Builder
	for _, h := range s.Hosts {
		for _, key := range h.HostKeys {
			fmt.Fprintf(&text, "%s %s\n", h.Address, key)
		}
	}
	return writeFile(s.KnownHosts, []byte(text.String()))
}
