// Package reexec is for workers that run their own program again. It has the first arguments for
// that, keeps what the program writes, and stops a program started so from starting others in the
// same way.
package reexec

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// First arguments of the program, besides those of its command line.
const (
	JobCode         = "run-job-code"
	JobCodeInPython = "run-job-code-in-python"
	Browser         = "run-browser"
)

// RecursionError means that the program was run with one of our first arguments, but did not obey it.
type RecursionError struct {
	Command string
}

func (e *RecursionError) Error() string {
	return fmt.Sprintf("this process was itself started by a worker, as %q, and would start itself without end\nhint: the main function, or TestMain of a test, has to call what runs %q first", e.Command, e.Command)
}

// Check refuses, with a [RecursionError], in a process that was itself started in this way. If a program
// ignores the argument, such as a test binary, each process would otherwise start others without end.
func Check() error { return check(os.Args) }

func check(args []string) error {
	if len(args) > 1 && slices.Contains([]string{JobCode, JobCodeInPython, Browser}, args[1]) {
		return &RecursionError{args[1]}
	}
	return nil
}

// Head keeps the beginning of a program's error output. It is safe for concurrent use.
type Head struct {
	Limit int // how much is kept, in bytes

	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer. It never fails.
func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(p[:min(len(p), h.Limit-h.text.Len())])
	return len(p), nil
}

// String returns what was kept, as valid UTF-8.
func (h *Head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.ToValidUTF8(h.text.String(), "\uFFFD")
}
