package child

import (
	_ "embed"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/reexec"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/jail"
)

// pythonCommand is the first argument of a program that is to become a Python that runs code. Three
// more follow: bytes of memory, seconds of processor time, and a Python.
const pythonCommand = reexec.JobCodeInPython

// Python is an interpreter, and the files that it may read.
type Python struct {
	Path  string   `json:"path"`
	Dirs  []string `json:"dirs"`
	Files []string `json:"files"`
}

// pythonRun is the program by which the interpreter speaks with the engine, and runs code.
//
//go:embed run.py
var pythonRun string

// pythonFlags: no environment, no site packages, and no byte code files.
var pythonFlags = []string{"-I", "-S", "-B", "-u"}

// PythonArgs are the arguments of a process with limits, in Python.
func PythonArgs(l jail.Limits, p Python) ([]string, error) {
	text, err := json.Marshal(p)
	limits := Args(l)
	return []string{pythonCommand, limits[1], limits[2], string(text)}, err
}

// pythonMain enters the jail and becomes the interpreter. It returns an exit code if that fails.
func pythonMain(args []string) int {
	memory, err := strconv.ParseInt(args[1], 10, 64)
	seconds, wrong := strconv.Atoi(args[2])
	var p Python
	if err := errors.Join(err, wrong, json.Unmarshal([]byte(args[3]), &p)); err != nil {
		return complain(ExitJail, err)
	}
	return complain(ExitJail, jail.Become(jail.Limits{Memory: memory, CPU: time.Duration(seconds) * time.Second}, jail.Interpreter{
		Path: p.Path, Args: append(append([]string{p.Path}, pythonFlags...), "-c", pythonRun), Dirs: p.Dirs, Files: p.Files,
	}))
}
