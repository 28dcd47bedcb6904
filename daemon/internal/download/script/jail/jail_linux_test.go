package jail

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	landlockcall "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// partEnv makes the test program apply a part of the jail, and report what still works.
const partEnv = "JAIL_TEST_PART"

func TestMain(m *testing.M) {
	if os.Getenv(partEnv) == "files" {
		os.Exit(withoutFiles())
	}
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

var built string

// program is testdata/escape. It is built without cgo, like releases, even if these tests are not.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "jail-test-")
	if err != nil {
		return "", err
	}
	built = filepath.Join(dir, "escape")
	cmd := exec.Command("go", "build", "-o", built, "./testdata/escape")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return built, nil
})

// escape enters the jail and tries something there.
func escape(t *testing.T, try string) (out string, state *os.ProcessState) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	open, err := os.Open("/proc/self/status") // so that there is a descriptor to inherit
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	var text bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, try)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &text, &text, []*os.File{open}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return text.String(), cmd.ProcessState
}

// Code that has broken out of its language could make any system call. Those that the jail forbids are tried.
func TestNobodyEscapes(t *testing.T) {
	t.Parallel()
	for _, try := range strings.Fields(`shadow openat2 oldopen write mkdir proc
		exec fork rawfork vfork newuser
		tcp udp unix rawsock pair uring
		bpf ptrace readpeer kill tgkill pidfd setuid mount memfd rwx limits ioctl shared validate latershared growsdown`) {
		t.Run(try, func(t *testing.T) {
			t.Parallel()
			out, state := escape(t, try)
			if status, ok := state.Sys().(syscall.WaitStatus); !ok || out != "in\n" || !status.Signaled() || status.Signal() != syscall.SIGSYS {
				t.Errorf("%s, printed %q: want an end by SIGSYS", state, out)
			}
		})
	}
	if _, err := os.Stat("/tmp/escaped"); err == nil {
		t.Error("a file was made")
	}
}

// The runtime has what it needs: threads, the collector, and time.
func TestTheRuntimeWorks(t *testing.T) {
	t.Parallel()
	for _, try := range []string{"nothing", "threads"} {
		if out, state := escape(t, try); out != "in\ndone\n" || !state.Success() {
			t.Errorf("%s: %s, printed %q", try, state, out)
		}
	}
}

func TestInheritedFilesAreClosed(t *testing.T) {
	t.Parallel()
	if out, _ := escape(t, "inherited"); !strings.Contains(out, "error: bad file descriptor") {
		t.Errorf("printed %q", out)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	out, state := escape(t, "memory")
	if state.ExitCode() != 2 || !strings.Contains(out, "out of memory") && !strings.Contains(out, "cannot allocate memory") {
		t.Errorf("%s, printed %q", state, out)
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); !ok || usage.Maxrss > 192<<10 {
		t.Errorf("had %d KiB, want less than 192 MiB", usage.Maxrss)
	}
}

// Memory that RLIMIT_DATA does not count is bounded, too. Shared memory is among what TestNobodyEscapes tries.
func TestAddressSpaceIsBounded(t *testing.T) {
	t.Parallel()
	for _, try := range []string{"readonly", "tables"} {
		out, state := escape(t, try)
		if !strings.Contains(out, "cannot allocate memory") && state.ExitCode() != 2 {
			t.Errorf("%s: %s, printed %q", try, state, out)
		}
		if usage, ok := state.SysUsage().(*syscall.Rusage); !ok || usage.Maxrss > 384<<10 {
			t.Errorf("%s: had %d KiB, want less than 384 MiB", try, usage.Maxrss)
		}
	}
}

func TestCPUIsBounded(t *testing.T) {
	t.Parallel()
	_, state := escape(t, "cpu")
	if status, ok := state.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("%s: want an end by SIGKILL", state)
	}
	if spent := state.UserTime() + state.SystemTime(); spent > 4*time.Second {
		t.Errorf("used %s, want 2 s", spent)
	}
}

// A system call in another numbering is refused like any other.
func TestOtherNumbers(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		return // only amd64 has x32
	}
	if out, _ := escape(t, "x32"); !strings.Contains(out, "error: function not implemented") {
		t.Errorf("printed %q", out)
	}
}

// withoutFiles tries what Landlock alone must refuse.
func withoutFiles() int {
	if err := forbidFiles(); err != nil {
		println(err.Error())
		return 1
	}
	if _, err := os.ReadFile("/etc/passwd"); !errors.Is(err, syscall.EACCES) {
		println("a file can be read")
		return 2
	}
	if version, _ := landlockcall.LandlockGetABIVersion(); version >= 4 {
		if _, err := net.Dial("tcp", "127.0.0.1:1"); !errors.Is(err, syscall.EACCES) {
			println("a port can be connected")
			return 3
		}
	}
	return 0
}

// Landlock refuses files, too, if the list of system calls has a hole.
func TestLandlockAlone(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), partEnv+"=files")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
