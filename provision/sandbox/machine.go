package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Packages are the Debian packages that a machine needs to make sandboxes.
const Packages = "systemd-container mmdebstrap nftables iproute2 openssh-client e2fsprogs util-linux gnupg"

// Missing returns an error that says what this machine lacks to make sandboxes, nil if nothing.
func Missing() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("sandbox: this machine runs %s: want Debian\nhint: use a Debian machine or virtual machine, as root", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("sandbox: user id %d: want root, who may boot hosts\nhint: run the same command with sudo", os.Geteuid())
	}
	if !exists("/etc/debian_version") {
		return fmt.Errorf("sandbox: no /etc/debian_version: want a Debian machine, whose apt makes the hosts' file systems")
	}
	var missing []string
	for _, program := range []string{"systemd-nspawn", "mmdebstrap", "nft", "ip", "ssh-keygen", "mkfs.ext4", "nsenter", "unshare", "setsid"} {
		if _, err := exec.LookPath(program); err != nil && !exists("/usr/sbin/"+program) && !exists("/sbin/"+program) {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("sandbox: no %s\nhint: apt-get install %s", strings.Join(missing, ", "), Packages)
	}
	return nil
}

// limit is a kernel parameter that must not be lower while there are sandboxes. Its previous
// value is kept in the registry, in a file of its name.
type limit struct {
	name, path string
	least      int
	// optional: where it cannot be set, as in a container, hosts are tried anyway.
	optional bool
	// inUse reports whether something else needs it by now; nil: nothing would.
	inUse func(context.Context) (bool, error)
}

var limits = []limit{
	// This machine routes for the hosts.
	{name: "forwarding", path: "/proc/sys/net/ipv4/ip_forward", least: 1, inUse: otherLinks},
	// All hosts share it, because their root is this machine's. Each has about eight instances,
	// and three more for a logged-in user; the kernel's default is 128.
	{name: "inotify", path: "/proc/sys/fs/inotify/max_user_instances", least: 4096, optional: true},
}

func raiseLimits() error {
	for _, l := range limits {
		if err := l.raise(registry); err != nil && !l.optional {
			return err
		}
	}
	return nil
}

// restoreLimits undoes raiseLimits after the last sandbox.
func restoreLimits(ctx context.Context) error {
	var errs []error
	for _, l := range limits {
		errs = append(errs, l.restore(ctx, registry))
	}
	return errors.Join(errs...)
}

func (l limit) raise(kept string) error {
	was, now, err := l.read()
	if err != nil || now >= l.least {
		return err
	}
	if err := writeFile(filepath.Join(kept, l.name), was); err != nil {
		return err
	}
	return os.WriteFile(l.path, fmt.Appendln(nil, l.least), 0o600)
}

// restore leaves the limit alone if somebody else has set it meanwhile, or needs it by now.
func (l limit) restore(ctx context.Context, kept string) error {
	was, err := os.ReadFile(filepath.Join(kept, l.name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, now, err := l.read()
	if err != nil || now != l.least {
		return err
	}
	if l.inUse != nil {
		if yes, err := l.inUse(ctx); yes || err != nil {
			return err
		}
	}
	return os.WriteFile(l.path, was, 0o600)
}

func (l limit) read() (text []byte, number int, err error) {
	if text, err = os.ReadFile(l.path); err != nil {
		return nil, 0, err
	}
	number, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return text, number, err
}

// otherLinks reports whether virtual links exist, which suggests that somebody else forwards.
func otherLinks(ctx context.Context) (bool, error) {
	for _, kind := range []string{"bridge", "veth", "tun", "wireguard"} {
		links, err := output(ctx, "ip", "-o", "link", "show", "type", kind)
		if err != nil || links != "" {
			return links != "", err
		}
	}
	return false, nil
}
