package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// Exec runs a shell script as root in the host, without SSH, and returns its standard
// output. The error contains its standard error.
func (h *Host) Exec(ctx context.Context, script string) (string, error) {
	leader := h.leader()
	if leader == 0 {
		return "", fmt.Errorf("host %s: not up", h.Name)
	}
	// When nsenter forks to enter a PID name space, it stops itself when the process inside is
	// stopped, as systemd stops all processes for a shutdown; then that process is never reaped,
	// and the host never ends. A shell ignores stops.
	cmd := command(ctx, "nsenter", "--target", strconv.Itoa(leader), "--all", "--no-fork", "/bin/sh", "-c", `/bin/sh -c "$1"; exit $?`, "sh", script)
	cmd.ExtraFiles = nil // what runs in a host ends with the host: no lock may wait for it
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C"}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := runCommand(cmd); err != nil {
		if ctx.Err() != nil {
			return stdout.String(), ctx.Err()
		}
		first, _, _ := strings.Cut(strings.TrimSpace(script), "\n")
		return stdout.String(), &runError{command: "host " + h.Name + ": " + first, output: stderr.String(), err: err}
	}
	return stdout.String(), nil
}

// Reboot restarts the host as `systemctl reboot` does, and waits until it is up again.
func (h *Host) Reboot(ctx context.Context) error {
	before := h.leader()
	if _, err := h.Exec(ctx, "systemctl reboot"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bootWait)
	defer cancel()
	for now := before; now == before || now == 0; now = h.leader() {
		if err := host.Sleep(ctx, 50*time.Millisecond); err != nil {
			return h.waitError(err, "no reboot")
		}
	}
	return h.ready(ctx)
}

// PowerOff shuts the host down in order. Its files are kept for Start.
func (h *Host) PowerOff(ctx context.Context) error {
	leader := h.leader()
	if leader == 0 {
		return nil
	}
	if err := signalPowerOff(leader); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bootWait)
	defer cancel()
	for !h.ended() {
		if err := host.Sleep(ctx, 50*time.Millisecond); err != nil {
			return h.waitError(err, "no power off")
		}
	}
	return nil
}

// Kill ends the host as a power cut would. Its files are kept for Start, also what was
// written without an fsync: the machine itself has not lost its power.
func (h *Host) Kill(ctx context.Context) error { return emptyCgroups(ctx, h.cgroup()) }

// Isolate drops all traffic to and from the host, as if its cable were pulled, or lets it
// through again. This persists across reboots.
func (h *Host) Isolate(ctx context.Context, yes bool) error {
	rules := "table inet isolated\ndelete table inet isolated\n"
	if yes {
		rules += `table inet isolated {
	chain in { type filter hook input priority -400; policy drop; iif lo accept; }
	chain out { type filter hook output priority -400; policy drop; oif lo accept; }
}
`
	}
	space := netns(h.sandbox.state.Index, h.state.Number)
	return runInput(ctx, rules, "nsenter", "--net="+space, "nft", "-f", "-")
}
