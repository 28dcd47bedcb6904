//go:build unix

package chores

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test program plays all parts: the parent (mage), which starts the middle
// (a target), which runs the child (the daemon) in the foreground. The child writes
// what happens to it to a file.
func TestMain(m *testing.M) {
	switch log := os.Getenv("CHORES_LOG"); os.Getenv("CHORES_PART") {
	case "child":
		child(log)
	case "middle":
		// Mage installs its own handler before the target runs.
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
		if err := foreground(part("child", log), time.Hour); err != nil {
			fmt.Println("foreground:", err)
			os.Exit(1)
		}
	case "run":
		if err := (Repo{Dir: ".", Out: os.Stdout}).Run(context.Background(), os.Getenv("URIFILTER_LISTEN")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	case "parent":
		if err := part("middle", log).Run(); err != nil {
			os.Exit(1)
		}
	default:
		os.Exit(m.Run())
	}
}

func part(name, log string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CHORES_PART="+name, "CHORES_LOG="+log)
	cmd.Stderr = os.Stderr
	return cmd
}

// child stops 1.2 s after the last signal, like a daemon that drains.
func child(log string) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		os.Exit(1)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	fmt.Fprintln(file, "started")
	deadline := time.After(5 * time.Minute)
	for {
		select {
		case s := <-signals:
			fmt.Fprintln(file, s)
			deadline = time.After(1200 * time.Millisecond)
		case <-deadline:
			fmt.Fprintln(file, "drained")
			os.Exit(0)
		}
	}
}

// waitFor waits until the child has written all of want.
func waitFor(t *testing.T, log, want string) {
	t.Helper()
	var got []byte
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got, _ = os.ReadFile(log); strings.Contains(string(got), want) {
			return
		}
	}
	t.Fatalf("the child wrote %q, want %q", got, want)
}

func startGroup(t *testing.T, name, log string) *exec.Cmd {
	t.Helper()
	cmd := part(name, log)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	waitFor(t, log, "started")
	return cmd
}

// TestCtrlC sends the interrupt to the whole group and then also to the middle, as a
// terminal and `go tool` do: the child gets it once, as SIGTERM, and has time to drain.
func TestCtrlC(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	middle := startGroup(t, "middle", log)
	for _, pid := range []int{-middle.Process.Pid, middle.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		waitFor(t, log, "terminated")
	}
	if err := middle.Wait(); err != nil {
		t.Errorf("middle: %v", err)
	}
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if want := "started\nterminated\ndrained\n"; string(got) != want {
		t.Errorf("the child wrote %q, want %q", got, want)
	}
}

// TestMiddleKilled ends the middle at once: only the kernel can tell the child. It
// may do so once for each thread of the middle.
func TestMiddleKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // other kernels do not do it
	}
	log := filepath.Join(t.TempDir(), "log")
	middle := startGroup(t, "middle", log)
	if err := middle.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = middle.Wait()
	waitFor(t, log, "started\nterminated\n")
	waitFor(t, log, "drained\n")
}

// TestParentKilled ends mage, which tells its targets nothing.
func TestParentKilled(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	parent := startGroup(t, "parent", log)
	if err := parent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	waitFor(t, log, "started\nterminated\ndrained\n")
}

func TestForegroundReportsExit(t *testing.T) {
	if err := foreground(exec.Command("sh", "-c", "exit 3"), time.Second); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want exit status 3", err)
	}
	if err := foreground(exec.Command(filepath.Join(t.TempDir(), "none")), time.Second); err == nil {
		t.Error("a program that does not exist: no error")
	}
}
