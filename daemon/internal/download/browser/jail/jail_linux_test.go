package jail

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// If one of these is set, the test program enters the jail, and then becomes itself again.
const (
	enterEnv  = "BROWSER_JAIL_TEST_ENTER"  // the folder that it may keep
	insideEnv = "BROWSER_JAIL_TEST_INSIDE" // what it tries there
)

func TestMain(m *testing.M) {
	if try := os.Getenv(insideEnv); try != "" {
		fmt.Print(tries[try]())
		os.Exit(0)
	}
	if dir := os.Getenv(enterEnv); dir != "" {
		self, err := os.Executable()
		if err == nil {
			err = Exec(Options{
				ReadOnly: []string{filepath.Dir(self), "/usr", "/lib", "/lib64", "/bin"}, ReadOne: []string{"/proc", os.DevNull, "/missing"},
				Private: dir, Memory: 1 << 30, FileSize: 1 << 20,
			}, self, []string{"inside"}, []string{insideEnv + "=" + os.Args[1], enterEnv + "="})
		}
		fmt.Print(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func raw(number uintptr, args ...uintptr) error {
	a := [6]uintptr{}
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

var tries = map[string]func() error{
	"tcp":     func() error { _, err := net.Dial("tcp", "127.0.0.1:1"); return err },
	"udp":     func() error { _, err := net.Dial("udp", "127.0.0.1:53"); return err },
	"unix":    func() error { _, err := net.Dial("unix", "/run/dbus/system_bus_socket"); return err },
	"packet":  func() error { _, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); return err },
	"netlink": func() error { _, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0); return err },
	"datagrams": func() error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	},
	"inetpair":  func() error { _, err := unix.Socketpair(unix.AF_INET, unix.SOCK_STREAM, 0); return err },
	"uring":     func() error { return raw(unix.SYS_IO_URING_SETUP, 8, 0) },
	"newuser":   func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"cloneuser": func() error { return raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)) },
	"clone3":    func() error { return raw(unix.SYS_CLONE3, 0, 0) },
	"ptrace":    func() error { return unix.PtraceAttach(os.Getppid()) },
	"mount":     func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") },
	"new call":  func() error { return raw(5000) },
	"shadow":    func() error { _, err := os.ReadFile("/etc/shadow"); return err },
	"passwd":    func() error { _, err := os.ReadFile("/etc/passwd"); return err },
	"home":      func() error { _, err := os.ReadDir("/root"); return err },
	"tmp":       func() error { return os.WriteFile("/tmp/browser-escaped", nil, 0o600) },
	"sysctl":    func() error { return os.WriteFile("/proc/sys/kernel/hostname", []byte("x"), 0o600) },
	"memory of the parent": func() error {
		_, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", os.Getppid()), os.O_RDONLY, 0)
		return err
	},
	"environment of the parent": func() error {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", os.Getppid()))
		return err
	},
	"signal": func() error { return unix.Kill(os.Getppid(), 0) },
	"capabilities": func() error {
		status, err := os.ReadFile("/proc/self/status")
		if err == nil && (!strings.Contains(string(status), "CapEff:\t0000000000000000") || !strings.Contains(string(status), "NoNewPrivs:\t1")) {
			err = errors.New(string(status))
		}
		return err
	},
	// What still works.
	"pair": func() error { _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err },
	"packets": func() error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		return err
	},
	"proc": func() error { _, err := os.ReadFile("/proc/self/status"); return err },
	"run":  func() error { return exec.Command("/bin/true").Run() },
	"null": func() error { return os.WriteFile(os.DevNull, []byte("x"), 0) },
	"own":  func() error { return os.WriteFile(".browser-own", []byte("x"), 0o600) },
}

func TestJail(t *testing.T) {
	t.Parallel()
	for try, want := range map[string]string{
		"tcp": "permission denied", "udp": "permission denied", "unix": "permission denied", "packet": "permission denied", "netlink": "permission denied",
		"datagrams": "permission denied", "inetpair": "permission denied", "uring": "permission denied",
		"newuser": "permission denied", "cloneuser": "operation not permitted", "clone3": "function not implemented", "new call": "function not implemented",
		"ptrace": "permission denied", "mount": "permission denied",
		"shadow": "permission denied", "passwd": "permission denied", "home": "permission denied", "tmp": "permission denied", "sysctl": "permission denied",
		"memory of the parent": "permission denied", "environment of the parent": "permission denied", "signal": "operation not permitted",
		"capabilities": "<nil>", "pair": "<nil>", "packets": "<nil>", "proc": "<nil>", "run": "<nil>", "null": "<nil>", "own": "<nil>",
	} {
		t.Run(try, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0], try)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), enterEnv+"="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), want) {
				t.Errorf("%v, printed %q, want %q", err, out, want)
			}
		})
	}
}
