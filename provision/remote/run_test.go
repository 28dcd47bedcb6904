package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// writeProgram writes a file that can be run at once. A process that another test forks meanwhile
// would have it open for writing until it executes its own program, and a file that is open for
// writing cannot be run.
func writeProgram(t *testing.T, path string, text []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	long := strings.Repeat("# a script longer than one argument may be\n", 5000) + "printf '%s' \"$(cat)\""
	for _, r := range []struct {
		name string
		cmd  host.Command
		want host.Output
	}{
		{"environment", host.Command{Script: `echo "$LC_ALL $DEBIAN_FRONTEND $(umask) $PWD $PATH"`}, host.Output{Stdout: "C noninteractive 0022 / /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"}},
		{"no input", host.Command{Script: "cat; echo end"}, host.Output{Stdout: "end\n"}},
		{"input", host.Command{Script: "cat", Stdin: strings.NewReader("a\nb")}, host.Output{Stdout: "a\nb"}},
		{"empty input", host.Command{Script: "wc -c", Stdin: strings.NewReader("")}, host.Output{Stdout: "0\n"}},
		{"input not read", host.Command{Script: "echo done", Stdin: endless{}}, host.Output{Stdout: "done\n"}},
		{"several lines", host.Command{Script: "\nif true; then\n  echo 'a  b' \"c\\\\d\"\nfi\n# the end\n"}, host.Output{Stdout: "a  b c\\d\n"}},
		{"here document", host.Command{Script: "cat <<'X'\n $a \\n\nX\n"}, host.Output{Stdout: " $a \\n\n"}},
		{"last line without end", host.Command{Script: "cat <<X\nfoo\nX"}, host.Output{Stdout: "foo\n"}},
		{"long", host.Command{Script: long, Stdin: strings.NewReader("input")}, host.Output{Stdout: "input"}},
		{"bytes", host.Command{Script: "cat; printf 'ä\x80'", Stdin: strings.NewReader("\x00\xff\r\n")}, host.Output{Stdout: "\x00\xff\r\nä\x80"}},
		{"signal", host.Command{Script: "kill -KILL $$", OK: []int{137}}, host.Output{Stderr: "\nended by signal KILL\n", Code: 137}},
		{"background", host.Command{Script: "sleep 3 >/dev/null 2>&1 </dev/null & echo ok"}, host.Output{Stdout: "ok\n"}},
		{"set -e", host.Command{Script: "set -e\nfalse\necho no", OK: []int{1}}, host.Output{Code: 1}},
		{"root", host.Command{Script: "id -u", Root: true}, host.Output{Stdout: "0\n"}},
		{"user", host.Command{Script: `id -un; echo "$HOME $USER $LOGNAME"; cat`, User: "daemon", Stdin: strings.NewReader("x")}, host.Output{Stdout: "daemon\n/usr/sbin daemon daemon\nx"}},
	} {
		if os.Geteuid() != 0 && (r.cmd.Root || r.cmd.User != "") {
			continue
		}
		for _, look := range []bool{true, false} { // by the shell that stays, and in a session of its own
			r.cmd.Look = look
			if again, can := r.cmd.Stdin.(io.Seeker); can {
				_, _ = again.Seek(0, io.SeekStart)
			}
			got, err := c.Run(t.Context(), r.cmd)
			if err != nil || got != r.want {
				t.Errorf("%s, look %t: got %+v, %v\nwant %+v", r.name, look, got, err, r.want)
			}
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestCommandErrors(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	_, err := c.Run(t.Context(), host.Command{Script: "echo first >&2\necho no such thing >&2; exit 7"})
	var bad *host.CommandError
	if !errors.As(err, &bad) || bad.Output.Code != 7 || bad.Output.Stderr != "first\nno such thing\n" || err.Error() != "echo first >&2 ...: exit code 7: no such thing" {
		t.Errorf("got %v, %+v", err, bad)
	}
	_, err = c.Run(t.Context(), host.Command{Script: "echo hunter2; exit 7 # hunter2", Secret: true})
	if !errors.As(err, &bad) || strings.Contains(fmt.Sprintf("%v %+v", err, bad), "hunter2") {
		t.Errorf("secret: got %v, %+v", err, bad)
	}
	if out, err := c.Run(t.Context(), host.Command{Script: "echo answer; exit 7", Secret: true, OK: []int{7}}); err != nil || out.Stdout != "answer\n" || out.Code != 7 {
		t.Errorf("secret with an answer: got %+v, %v", out, err)
	}
	_, err = c.Run(t.Context(), host.Command{Script: "no-such-program"})
	if !errors.As(err, &bad) || bad.Output.Code != 127 || !strings.Contains(err.Error(), "not found") {
		t.Errorf("got %v", err)
	}
	if _, err = c.Run(t.Context(), host.Command{Script: "echo \x00"}); err == nil {
		t.Error("a NUL in a script is no error")
	}
	if _, err = c.Run(t.Context(), host.Command{Script: "cat", Stdin: iotest.ErrReader(errors.New("disk on fire"))}); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("input that cannot be read: got %v", err)
	}
	if os.Geteuid() == 0 {
		if _, err = c.Run(t.Context(), host.Command{Script: "true", User: "nobody-of-that-name"}); err == nil || !strings.Contains(err.Error(), "nobody-of-that-name") {
			t.Errorf("unknown user: got %v", err)
		}
	}
	if _, err = c.Run(t.Context(), host.Command{Script: "true", User: "x; id"}); err == nil {
		t.Error("a user with a blank is no error")
	}
}

// TestLargeOutput checks that the end of long output is kept.
func TestLargeOutput(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	out := run(t, c, host.Command{Script: "seq 1000000; seq 10 >&2"})
	if !strings.HasPrefix(out.Stdout, "[") || !strings.HasSuffix(out.Stdout, "\n999999\n1000000\n") || len(out.Stdout) > maxOutput+64 || !strings.HasPrefix(out.Stderr, "1\n") {
		t.Errorf("got %d bytes, beginning with %.40q", len(out.Stdout), out.Stdout)
	}
	out = run(t, c, host.Command{Script: "head -c 1048576 /dev/zero | tr '\\0' x"})
	if len(out.Stdout) != 1<<20 || strings.Trim(out.Stdout, "x") != "" {
		t.Errorf("got %d bytes", len(out.Stdout))
	}
}

// TestNoise has start-up files that write output, and a shell that refuses commands.
func TestNoise(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rc := filepath.Join(dir, "rc")
	if err := os.WriteFile(rc, []byte("echo Welcome to the jungle; printf 'no line end' >&2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	noisy := filepath.Join(dir, "noisy")
	script := "#!/bin/sh\n. " + rc + "\nexec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n"
	writeProgram(t, noisy, []byte(script))
	c := connected(t, "ForceCommand "+noisy)
	if out := run(t, c, host.Command{Script: "echo yes; echo no >&2"}); out.Stdout != "yes\n" || out.Stderr != "no\n" {
		t.Errorf("got %+v", out)
	}

	m := newMe(t)
	s := newServer(t, "ForceCommand echo This account is closed; exit 1", m.key.PublicKey())
	m.knows(t, s.address(), s.host.PublicKey())
	if _, err := m.dial(t, hostOf(s)); err == nil || !strings.Contains(err.Error(), "runs no commands: exit code 1: This account is closed") || !strings.Contains(err.Error(), "hint: ") {
		t.Errorf("got %v", err)
	}
}

// TestShells runs the command line in every shell that this machine has, as sshd does in the
// login shell.
func TestShells(t *testing.T) {
	t.Parallel()
	script := "echo \"it's $((1+1))\" '!' `echo back` \\\\ %\ncat"
	for _, shell := range []string{"sh", "bash", "dash", "zsh", "fish", "csh", "tcsh", "ksh", "mksh", "busybox"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not here", shell)
			continue
		}
		args := []string{"-c"}
		if shell == "busybox" {
			args = []string{"sh", "-c"}
		}
		word := newWord()
		cmd := exec.Command(path, append(args, commandLine("", word, linesOf(script), false))...)
		cmd.Stdin = strings.NewReader("password that nobody asked for\n" + preamble(word, script) + "rest")
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
		out := newOutput(word)
		cmd.Stdout = out
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil || out.text() != "it's 2 ! back \\ %\nrest" {
			t.Errorf("%s: got %q, %v, %s", shell, out.text(), err, stderr.String())
		}
		// A short script is part of the command line, and has no input.
		cmd = exec.Command(path, append(args, shortLine("", word, script))...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
		out = newOutput(word)
		cmd.Stdout = out
		if err := cmd.Run(); err != nil || out.text() != "it's 2 ! back \\ %\n" {
			t.Errorf("%s, short: got %q, %v", shell, out.text(), err)
		}
	}
}

// TestCancel ends commands on the host: those that sleep, that ignore a hang-up, and that
// have replaced their shell.
func TestCancel(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	for name, script := range map[string]string{
		"sleeps":   "echo $$ >%s; sleep 100; echo no",
		"ignores":  "trap '' HUP; echo $$ >%s; while :; do sleep 100; done",
		"replaced": "echo $$ >%s; exec sleep 100",
		"reads":    "echo $$ >%s; cat; sleep 100",
		"children": "echo $$ >%s; (sleep 100; echo) | (sleep 100; cat) & wait",
	} {
		file := filepath.Join(t.TempDir(), name)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		reader, writer := io.Pipe()
		go func() {
			cmd := host.Command{Script: fmt.Sprintf(script, file)}
			if name == "reads" {
				cmd.Stdin = reader
			}
			_, err := c.Run(ctx, cmd)
			ended <- err
		}()
		pid := ""
		for pid == "" {
			text, _ := os.ReadFile(file)
			pid = strings.TrimSpace(string(text))
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the context's error", name, err)
		}
		writer.Close()
		for wait := 0; ; wait++ {
			if _, err := os.Stat("/proc/" + pid); err != nil {
				break
			}
			if wait == 12_000 {
				t.Fatalf("%s: it still runs", name)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	// The connection is as good as before.
	run(t, c, host.Command{Script: "true"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Run(ctx, host.Command{Script: "true"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestCancelMany ends as many commands at once as a connection may have.
func TestCancelMany(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2*maxSessions)
	for i := range cap(ended) {
		go func() {
			_, err := c.Run(ctx, host.Command{Script: fmt.Sprintf("echo $$ >%s/%d; exec sleep 100", dir, i)})
			ended <- err
		}()
	}
	var begun []string
	for len(begun) < maxSessions {
		begun, _ = filepath.Glob(dir + "/*")
		time.Sleep(10 * time.Millisecond)
		begun = slices.DeleteFunc(begun, func(file string) bool { // its process id is not written yet
			pid, _ := os.ReadFile(file)
			return !strings.HasSuffix(string(pid), "\n")
		})
	}
	cancel()
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	for _, file := range begun {
		pid, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for wait := 0; ; wait++ {
			if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err != nil {
				break
			}
			if wait == 12_000 {
				t.Fatal("one still runs")
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// TestManyAtOnce has more commands than sshd allows sessions.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	c := connected(t, "")
	errs := make(chan error, 40)
	for i := range cap(errs) {
		go func() {
			out, err := c.Run(t.Context(), host.Command{Script: fmt.Sprintf("echo %d; cat", i), Stdin: strings.NewReader("x")})
			if err == nil && out.Stdout != fmt.Sprintf("%d\nx", i) {
				err = fmt.Errorf("command %d: got %q", i, out.Stdout)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// A refusal to open a session is final only if it lasts: sshd counts a session for a moment after its end.
func TestSessionRefusedForAMoment(t *testing.T) {
	t.Parallel()
	m := newMe(t)
	s := newServer(t, "MaxSessions 1", m.key.PublicKey())
	m.knows(t, s.address(), s.host.PublicKey())
	c := m.mustDial(t, hostOf(s))
	begun, stdout := io.Pipe()
	first, _, err := c.session(t.Context(), make(chan struct{}, 1))
	if err != nil {
		t.Fatal(err)
	}
	first.Stdout = stdout
	stdin, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start("echo begun; cat"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(begun, make([]byte, len("begun\n"))); err != nil {
		t.Fatal(err)
	}
	c.patience = 0
	if _, err := c.Run(t.Context(), host.Command{Script: "true"}); err == nil || !strings.Contains(err.Error(), "hint: MaxSessions in its sshd_config must be 2 or more") {
		t.Errorf("a refusal that lasts: %v", err)
	}
	refusals := func() int { return strings.Count(s.readLog(t), "no more sessions") }
	before := refusals()
	c.patience = 5 * time.Minute
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), host.Command{Script: "true"})
		ended <- err
	}()
	for deadline := time.Now().Add(2 * time.Minute); refusals() == before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second session was not refused")
		}
	}
	stdin.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestHostFiles(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("files are written as root")
	}
	c := connected(t, "")
	name := filepath.Join(t.TempDir(), "it's a file")
	if _, there, err := host.ReadFile(t.Context(), c, name); there || err != nil {
		t.Errorf("before: %v, %v", there, err)
	}
	want := host.File{Path: name, Content: "secret\x00\n\n", Mode: 0o640, Owner: "root", Group: "daemon"}
	if err := host.WriteFile(t.Context(), c, want); err != nil {
		t.Fatal(err)
	}
	got, there, err := host.ReadFile(t.Context(), c, name)
	if err != nil || !there || got != want {
		t.Errorf("got %+v, %v, %v", got, there, err)
	}
	if yes, err := host.Exists(t.Context(), c, name); !yes || err != nil {
		t.Errorf("exists: %v, %v", yes, err)
	}
	facts, err := host.FactsOf(t.Context(), c)
	if err != nil || facts.OS == "" || len(facts.CPU) == 0 {
		t.Errorf("facts: %+v, %v", facts, err)
	}
}
