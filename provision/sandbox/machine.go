package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Packages are those of Debian that a machine needs to make sandboxes.
const Packages = "systemd-container mmdebstrap nftables iproute2 openssh-client e2fsprogs util-linux gnupg"

// Missing says what this machine lacks to make sandboxes, nil if nothing.
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
