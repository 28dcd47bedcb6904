package scriptengine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/reexec"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/jail"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

const (
	// grace is how long code may take to end when it is told to stop.
	grace = 2 * time.Second
	// writeIn is how long sending a message may take if the process does not read it.
	writeIn = 10 * time.Second
	// runtimeFault is the exit code of a program that its Go runtime has ended.
	runtimeFault = 2
	// maxErrors is how much of the process's error output is kept, in bytes.
	maxErrors = 4 << 10
)

// process is a process that runs code.
type process struct {
	cmd    *exec.Cmd
	limits jail.Limits
	in     *os.File // the process reads from it
	out    *os.File // the process writes to it
	errors reexec.Head

	sending sync.Mutex
	mu      sync.Mutex // guards why
	why     string     // why it was told to stop, or was killed
}

// startProcess starts a process, without an environment, and with no descriptor but its pipes.
func startProcess(program string, l jail.Limits, args []string) (_ *process, err error) {
	if err := reexec.Check(); err != nil {
		return nil, err
	}
	p := &process{limits: l, errors: reexec.Head{Limit: maxErrors}}
	read, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, read.Close(), in.Close())
	}
	p.in, p.out = in, out
	p.cmd = exec.Command(program)
	p.cmd.Args = append([]string{"uridownloader"}, args...)
	p.cmd.Env, p.cmd.Dir = []string{}, "/"
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = read, write, &p.errors
	err = p.cmd.Start()
	if closed := errors.Join(read.Close(), write.Close()); err != nil {
		return nil, errors.Join(err, closed, in.Close(), out.Close())
	}
	return p, nil
}

// send sends a message. It kills a process that waits for it in vain: one that does not read it in time, or to
// which it is too long. If the process is gone, reading says why.
func (p *process) send(m wire.Down) {
	p.sending.Lock()
	defer p.sending.Unlock()
	err := p.in.SetWriteDeadline(time.Now().Add(writeIn))
	if err == nil {
		err = wire.Write(p.in, m)
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed) {
		p.kill(fmt.Sprintf("its process could not be told what it waits for: %v", err))
	}
}

// stop tells the process to stop, and kills it if it does not. The first reason counts.
func (p *process) stop(why string) {
	if !p.note(why) {
		return
	}
	time.AfterFunc(grace, func() { _ = p.cmd.Process.Kill() })
	p.send(wire.Down{Stop: why})
}

func (p *process) kill(why string) {
	p.note(why)
	_ = p.cmd.Process.Kill()
}

func (p *process) note(why string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.why == ""
	if first {
		p.why = why
	}
	return first
}

func (p *process) stopped() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// end kills the process if it still runs, waits for it, and closes its pipes.
func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // its state says how it ended
	_, _ = p.in.Close(), p.out.Close()
}

// wait waits for a process that has closed its pipe, and says why it has ended without a last message.
func (p *process) wait(file string) *worker.Failure {
	end := time.AfterFunc(grace, func() { _ = p.cmd.Process.Kill() }) // it may have closed the pipe and still run
	_ = p.cmd.Wait()
	end.Stop()
	said := p.errors.String()
	line, _, _ := strings.Cut(said, "\n")
	if why := p.stopped(); why != "" {
		return worker.Failed("code", "%s: %s", file, why)
	}
	switch state := p.cmd.ProcessState; {
	case state.ExitCode() == child.ExitJail:
		return &worker.Failure{Reason: "jail: " + line, After: worker.UnableFor}
	case strings.Contains(said, "out of memory") || strings.Contains(said, "cannot allocate memory"):
		return worker.Failed("memory", "%s: wanted more than %d MiB", file, p.limits.Memory>>20)
	case strings.Contains(said, "stack overflow") || strings.Contains(said, "stack exceeds"):
		return worker.Failed("stack", "%s: has too many calls in calls, or values in values", file)
	case state.ExitCode() == runtimeFault: // without memory, the runtime may print no message
		return worker.Failed("memory", "%s: wanted more than %d MiB, or broke its process otherwise: %s", file, p.limits.Memory>>20, line)
	case bySignal(state) == forbiddenCall:
		return worker.Failed("jail", "%s: made a system call that the jail forbids, and was killed", file)
	case bySignal(state) != "":
		return worker.Failed("killed", "%s: %s: it used more than %s of the processor, or the machine had no memory left", file, bySignal(state), p.limits.CPU)
	default:
		return worker.Failed("code", "%s: its process has ended without a message: %s%s", file, state, map[bool]string{true: ": " + line}[line != ""])
	}
}

// read reads a message. It returns io.EOF if the process has ended, or its message is invalid.
func (p *process) read(m *wire.Up) error {
	if err := wire.Read(p.out, m); err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
			p.kill(fmt.Sprintf("its process sent an invalid message: %v", err))
		}
		return io.EOF
	}
	return nil
}
