// Package child is the process that runs job code: it enters the jail, is told what to run, asks
// the engine for each page, and passes on what the code emits. Each attempt at a task gets one
// process. Its messages are not trusted: the engine counts for itself.
package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/reexec"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/jail"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
)

// Command is the first argument of a program that is to become such a process. Two more follow:
// the bytes of memory and the seconds of processor time that it may use.
const Command = reexec.JobCode

// Exit codes, besides those of the runtime.
const (
	ExitJail = 90 // there is no jail; the reason is in the standard error output
	ExitWire = 91 // the engine has gone, or sent an invalid message
)

// maxStack is the size of the code's stack in bytes, which bounds the depth of calls. A stack grows by
// copying it to one of twice the size, which briefly takes half as much again of the process's memory.
const maxStack = 16 << 20

// Args are the arguments of a process with limits.
func Args(l jail.Limits) []string {
	return []string{Command, strconv.FormatInt(l.Memory, 10), strconv.Itoa(int((l.CPU + time.Second - 1) / time.Second))}
}

// Asked reports whether the arguments of a program, without its name, ask for such a process.
func Asked(args []string) bool {
	return len(args) == 3 && args[0] == Command || len(args) == 4 && args[0] == pythonCommand
}

// Main runs the process. It returns the exit code.
func Main(args []string) int {
	if args[0] == pythonCommand {
		return pythonMain(args)
	}
	debug.SetTraceback("none")
	debug.SetMaxStack(maxStack)
	memory, err := strconv.ParseInt(args[1], 10, 64)
	seconds, wrong := strconv.Atoi(args[2])
	if err := errors.Join(err, wrong); err != nil {
		return complain(ExitJail, err)
	}
	debug.SetMemoryLimit(memory / 2) // from here on the collector works harder, before memory runs out
	late := make(chan os.Signal, 1)
	signal.Notify(late, cpuSignals()...)
	if err := jail.Enter(jail.Limits{Memory: memory, CPU: time.Duration(seconds) * time.Second}); err != nil {
		return complain(ExitJail, err)
	}
	in := bufio.NewReader(os.Stdin)
	var first wire.Down
	if err := wire.Read(in, &first); err != nil {
		return complain(ExitWire, err)
	}
	if first.Ask != nil {
		return answerAll(in, first.Ask)
	}
	if first.Start == nil {
		return complain(ExitWire, errors.New("the first message is no start"))
	}
	r := newRun(*first.Start, func(m wire.Up) {
		if err := wire.Write(os.Stdout, m); err != nil {
			os.Exit(complain(ExitWire, err))
		}
	})
	go func() {
		<-late
		r.stop(fmt.Sprintf("used more than %d s of the processor", seconds))
	}()
	go func() {
		for {
			var m wire.Down
			switch err := wire.Read(in, &m); {
			case errors.Is(err, io.EOF):
				os.Exit(ExitWire)
			case err != nil:
				os.Exit(complain(ExitWire, err))
			case m.Stop != "":
				r.stop(m.Stop)
			case m.Page != nil:
				r.pages <- m.Page
			}
		}
	}()
	r.send(wire.Up{End: r.execute()})
	return 0
}

func complain(code int, err error) int {
	fmt.Fprintln(os.Stderr, err)
	return code
}
