package scriptengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/reexec"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/jail"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
)

// checksAtOnce is how many scripts are compiled at once for waiting callers.
const checksAtOnce = 2

// lookIn is how long a Python may take to describe itself.
const lookIn = time.Minute

// pythonLook makes a Python list the files that it needs: the folders of its library, and the files
// mapped after loading modules that code may want.
const pythonLook = `
import json, os, sys
if sys.version_info < (3, 11):
    sys.exit("is Python %d.%d: want 3.11 or newer" % sys.version_info[:2])
import ast, base64, collections, csv, datetime, decimal, hashlib, html.parser, itertools, math, random, re, struct, unicodedata, urllib.parse, zlib
path = os.path.realpath(sys.executable)
dirs = [os.path.realpath(d) for d in sys.path if os.path.isdir(d)]
files = {path, "/etc/ld.so.cache"}
with open("/proc/self/maps") as maps:
    files |= {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
print(json.dumps({"path": path, "dirs": dirs, "files": sorted(f for f in files if os.path.isfile(f))}))
`

// lookAtPython asks the interpreter at a path, which the operator trusts, what it needs.
func lookAtPython(path string) (p child.Python, err error) {
	if path == "" {
		return p, errors.New("no code in Python is run here: the operator may set script.python to the path of a Python, such as /usr/bin/python3")
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookIn)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-I", "-S", "-B", "-c", pythonLook)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin"}, "/"
	said := reexec.Head{Limit: maxErrors}
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("script.python: %s: %w %s", path, err, strings.TrimSpace(said.String()))
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return p, fmt.Errorf("script.python: %s: is no Python: %w", path, err)
	}
	return p, nil
}

// Python says why no code in Python can be run here, or returns nil if it can.
func (e *Engine) Python() error {
	_, err := e.python()
	return err
}

// Check says what is wrong with the code of a script, with file, line and column. Code in Python is
// compiled in a jailed process; if there is no Python here, the error says so. An error that is
// caused by this machine, not by the code, is a *MachineError.
func (e *Engine) Check(ctx context.Context, c download.Code, of download.Script) error {
	if err := script.Check(c, of); err != nil || c.Language != script.Python {
		return err
	}
	args, err := e.args(c)
	if err != nil {
		return &MachineError{fmt.Errorf("%s: %w", c.File, err)}
	}
	select {
	case e.checks <- struct{}{}:
		defer func() { <-e.checks }()
	case <-ctx.Done():
		return &MachineError{context.Cause(ctx)}
	}
	p, err := startProcess(e.o.Program, e.limits(), args)
	if err != nil {
		return &MachineError{err}
	}
	defer p.end()
	defer context.AfterFunc(ctx, func() { p.kill("the caller has gone") })()
	defer time.AfterFunc(lookIn, func() { p.kill("took too long") }).Stop()
	p.send(wire.Down{Start: &wire.Start{File: c.File, Text: c.Text, Function: string(of), Check: true}})
	var m wire.Up
	if p.read(&m) != nil || m.End == nil {
		return &MachineError{p.wait(c.File)}
	}
	if m.End.Fault != "" {
		return errors.New(m.End.Fault)
	}
	return nil
}

// MachineError means that code cannot be checked here.
type MachineError struct{ Err error }

func (e *MachineError) Error() string { return e.Err.Error() }
func (e *MachineError) Unwrap() error { return e.Err }

func (e *Engine) limits() jail.Limits { return jail.Limits{Memory: e.o.Memory, CPU: e.o.CPU} }

// args are the arguments of the process that runs a script.
func (e *Engine) args(c download.Code) ([]string, error) {
	if c.Language != script.Python {
		return child.Args(e.limits()), nil
	}
	p, err := e.python()
	if err != nil {
		return nil, err
	}
	return child.PythonArgs(e.limits(), p)
}

// relayQuestion passes a question of the process to one that can read pages, and passes the answer back.
func (a *attempt) relayQuestion(q *wire.Ask) error {
	reader := a.reader.Load()
	if reader == nil {
		var err error
		if reader, err = startProcess(a.e.o.Program, a.e.limits(), child.Args(a.e.limits())); err != nil {
			return a.unstarted("the process that reads pages", err)
		}
		a.reader.Store(reader)
		if why := a.process.stopped(); why != "" {
			reader.kill(why)
		}
	}
	reader.send(wire.Down{Ask: q})
	var m wire.Up
	if err := reader.read(&m); err != nil || m.Found == nil {
		return reader.wait(a.code.File)
	}
	a.process.send(wire.Down{Found: m.Found})
	return nil
}

// killReader ends the process that reads pages, if there is one.
func (a *attempt) killReader(why string) {
	if reader := a.reader.Load(); reader != nil {
		reader.kill(why)
	}
}
