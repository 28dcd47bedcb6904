package chromium

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/reexec"
)

// Options are those of a Process. Browser and Dir must be given.
type Options struct {
	Program string // is run with Command, so its Main must be ours; "": this very program
	Browser string // path, see Find
	Dir     string // the profile is made in it
	Memory  int64  // bytes of data of each process of the browser; 0: 1 GiB
}

// maxErrors is how much of the browser's error output is kept, in bytes.
const maxErrors = 16 << 10

// Process is a running browser. It is killed when the process that started it ends.
type Process struct {
	// In takes commands for the browser, Out has what it says.
	In, Out *os.File

	cmd     *exec.Cmd
	profile string
	done    chan struct{}
	errors  reexec.Head
}

// Start starts a browser. End it.
func Start(o Options) (_ *Process, err error) {
	if err := reexec.Check(); err != nil {
		return nil, err
	}
	p := &Process{done: make(chan struct{}), errors: reexec.Head{Limit: maxErrors}}
	dir, err := filepath.Abs(o.Dir) // the browser has another working directory
	if err != nil {
		return nil, err
	}
	if p.profile, err = os.MkdirTemp(dir, "browser-"); err != nil {
		return nil, err
	}
	read, in, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.profile))
	}
	out, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, read.Close(), in.Close(), os.RemoveAll(p.profile))
	}
	p.In, p.Out = in, out
	p.cmd = exec.Command(cmp.Or(o.Program, reexec.Self))
	p.cmd.Args = []string{"uridownloader", Command, strconv.FormatInt(cmp.Or(o.Memory, 1<<30), 10), p.profile, o.Browser}
	p.cmd.Env, p.cmd.Dir = []string{}, "/"
	p.cmd.Stderr, p.cmd.ExtraFiles = &p.errors, []*os.File{read, write} // 3 and 4, as the browser expects them
	p.cmd.WaitDelay = time.Second                                       // its children may hold the pipe of its errors
	group(p.cmd)
	started := make(chan error)
	go func() {
		// The browser is killed when this thread ends, so the thread stays until the browser has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // its state says how it ended
			close(p.done)
		}
	}()
	err = <-started
	if closed := errors.Join(read.Close(), write.Close()); err != nil {
		return nil, errors.Join(err, closed, in.Close(), out.Close(), os.RemoveAll(p.profile))
	}
	return p, nil
}

// Done is closed when the browser has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid is the number of the browser's first process, and of its group.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill kills the browser and all processes that it has started, and does not wait.
func (p *Process) Kill() { killGroup(p.cmd.Process) }

// End kills the browser, waits for it, and removes its profile.
func (p *Process) End() error {
	p.Kill()
	<-p.done
	p.Kill() // processes that were started in between
	return errors.Join(p.In.Close(), p.Out.Close(), removeAll(p.profile))
}

// removeAll removes a folder in which processes that were just killed may briefly still make files.
func removeAll(dir string) (err error) {
	for range 100 {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// Why says how a browser has ended that was not told to end. Done must be closed.
func (p *Process) Why() (why string, jailed bool) {
	line := lastLine(p.errors.String())
	state := p.cmd.ProcessState
	if state.ExitCode() == exitJail {
		return line, true
	}
	return strings.TrimSuffix(fmt.Sprintf("%s: %s", state, line), ": "), false
}

// lastLine is the last line that a program has written, which says why it gave up.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
