package sandbox

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// Host is one host of a sandbox.
type Host struct {
	Name     string
	Release  string
	Address  string
	Port     int
	User     string   // besides root: may use sudo with Password
	Password string   // of User; root has none
	HostKey  string   // public Ed25519 key as in known_hosts: "ssh-ed25519 AAAA..."
	HostKeys []string // all of its public keys

	sandbox *Sandbox
	state   hostState
}

// bootWait bounds a boot on a machine that is busy with other boots.
const bootWait = 3 * time.Minute

//go:embed boot.sh
var bootScript string

func (h *Host) dir() string     { return filepath.Join(h.sandbox.Dir, "hosts", h.Name) }
func (h *Host) cgroup() string  { return cgroupName(h.sandbox.state.Index, h.state.Number) }
func (h *Host) machine() string { return fmt.Sprintf("ufsb%d-%s", h.sandbox.state.Index, h.Name) }

// make brings the host up, whatever an earlier attempt has left of it.
func (h *Host) make(ctx context.Context, cache string) error {
	if !exists(filepath.Join(h.dir(), "prepared")) {
		tree, err := baseTree(ctx, cache, h.Release, h.sandbox.out)
		if err != nil {
			return err
		}
		if err := h.layOut(ctx, tree); err != nil {
			return err
		}
	}
	if h.leader() == 0 {
		h.sandbox.changed.Store(true)
		fmt.Fprintf(h.sandbox.out, "booting %s, %s, at %s\n", h.Name, h.Release, h.Address)
	}
	if err := h.start(ctx, h.boot); err != nil {
		return err
	}
	return h.readKeys()
}

// layOut re-creates the host's folder.
func (h *Host) layOut(ctx context.Context, tree string) error {
	if err := emptyCgroups(ctx, h.cgroup()); err != nil {
		return err
	}
	if err := removeTree(h.dir()); err != nil {
		return err
	}
	for _, name := range []string{"upper", "work", "root", "tree"} {
		// The upper folder's mode is that of the host's /.
		if err := os.MkdirAll(filepath.Join(h.dir(), name), 0o755); err != nil {
			return err
		}
	}
	var disks strings.Builder
	for _, path := range slices.Sorted(maps.Keys(h.state.Disks)) { // /var before /var/lib
		image := fmt.Sprintf("disk%d", strings.Count(disks.String(), "\n"))
		if err := makeDisk(ctx, filepath.Join(h.dir(), image), h.state.Disks[path]); err != nil {
			return err
		}
		fmt.Fprintf(&disks, "%s %s\n", image, path)
	}
	prepare, err := h.prepareScript()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"disks": disks.String(), "prepare.sh": prepare, "boot.sh": bootScript, "base": tree} {
		if err := os.WriteFile(filepath.Join(h.dir(), name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func makeDisk(ctx context.Context, image string, size int64) error {
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, size); err != nil {
		return err
	}
	return run(ctx, "mkfs.ext4", "-q", "-m", "0", image)
}

// Start boots the host, if it is not up, and returns when its systemd has started
// everything and sshd answers.
func (h *Host) Start(ctx context.Context) error {
	return h.start(ctx, func(ctx context.Context) error { return withLock(ctx, h.sandbox.Dir, h.boot) })
}

func (h *Host) start(ctx context.Context, boot func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bootWait)
	defer cancel()
	if h.leader() == 0 {
		if err := boot(ctx); err != nil {
			return err
		}
	}
	return h.ready(ctx)
}

// boot must be called with the sandbox's lock held.
func (h *Host) boot(ctx context.Context) error {
	if err := emptyCgroups(ctx, h.cgroup()); err != nil {
		return err
	}
	tree, err := os.ReadFile(filepath.Join(h.dir(), "base"))
	if err != nil {
		return err
	}
	if !exists(string(tree)) {
		return fmt.Errorf("root file system %s: gone from the cache, and the host with it\nhint: sandbox:down, then sandbox:up", tree)
	}
	if err := os.Remove(filepath.Join(h.dir(), "ended")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	groups, err := cgroups(h.cgroup())
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(h.dir(), "console"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// setsid --fork: the new process is nobody's child, and outlives this one. Descriptor 3 is
	// the sandbox's lock, which boot.sh releases.
	cmd := command(ctx, "setsid", "--fork", "unshare", "--mount", "--propagation", "private",
		"/bin/sh", filepath.Join(h.dir(), "boot.sh"), h.dir(), string(tree), h.machine(), h.Name,
		netns(h.sandbox.state.Index, h.state.Number), strings.Join(groups, " "))
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, plainEnv()
	return runCommand(cmd)
}

// ready waits until the host is booted and accepts connections.
func (h *Host) ready(ctx context.Context) error {
	seen := "nothing"
	for {
		if h.leader() != 0 {
			running, err := h.Exec(ctx, "systemctl is-system-running --wait || true")
			seen = strings.TrimSpace(running)
			if err != nil {
				seen = err.Error()
			}
			if seen == "running" || seen == "degraded" {
				if h.listens() {
					return nil
				}
				seen += ", but sshd does not listen"
			}
		} else if exists(filepath.Join(h.dir(), "ended")) {
			return h.notReady("it has ended")
		}
		if err := host.Sleep(ctx, 50*time.Millisecond); err != nil {
			return h.waitError(err, "last seen: "+seen)
		}
	}
}

// waitError says why a wait has ended: the caller canceled it, or it timed out.
func (h *Host) waitError(err error, seen string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return h.notReady(fmt.Sprintf("not done after %v; %s", bootWait, seen))
}

// listens reports whether something listens on the host's SSH port. It does not connect: the
// host may be isolated, and its sshd must not log a caller that says nothing.
func (h *Host) listens() bool {
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", h.leader(), name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(table)) {
			f := strings.Fields(line)
			if len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", h.Port)) && f[3] == "0A" {
				return true
			}
		}
	}
	return false
}

func (h *Host) notReady(why string) error {
	err := fmt.Errorf("boot: %s; the end of its console:\n%s", why, tail(h.Console(), 20))
	if strings.Contains(err.Error(), "inotify object: Too many open files") {
		err = fmt.Errorf("%w\nhint: all hosts of a machine share its limit: sysctl fs.inotify.max_user_instances=4096", err)
	}
	return err
}

// Console returns what the host has written to its console since it was made.
func (h *Host) Console() string {
	text, _ := os.ReadFile(filepath.Join(h.dir(), "console")) // no file: it was never booted
	return string(text)
}

// ended reports whether nothing of the host runs, not even its boot script.
func (h *Host) ended() bool { return !groupRuns(h.cgroup()) }

// leader returns the process ID of the host's PID 1 on this machine, 0 if the host is not up.
func (h *Host) leader() int {
	groups, err := cgroups(h.cgroup())
	if err != nil {
		return 0
	}
	for _, g := range groups {
		pids, err := processes(g)
		if err != nil {
			continue
		}
		for _, pid := range pids {
			if isLeader(pid) {
				return pid
			}
		}
	}
	return 0
}

// isLeader reports whether a process is the first of a PID name space directly below ours.
func isLeader(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(numbers)
			return len(fields) == 2 && fields[1] == "1"
		}
	}
	return false
}

// Up reports whether the host runs.
func (h *Host) Up() bool { return h.leader() != 0 }

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
