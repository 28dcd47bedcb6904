// Package reexec is how a worker runs its own program again: with which first arguments, and that a program
// which was run so does not do the same in turn.
package reexec

import (
	"fmt"
	"os"
	"slices"
)

// First arguments of the program, beside those of its command line.
const (
	JobCode         = "run-job-code"
	JobCodeInPython = "run-job-code-in-python"
	Browser         = "run-browser"
)

// AgainError says that the program was run with a first argument of ours, and did not do what it asks for.
type AgainError struct {
	Command string
}

func (e *AgainError) Error() string {
	return fmt.Sprintf("this process was itself started by a worker, as %q, and would start itself without end\nhint: the main function, or TestMain of a test, has to call what runs %q first", e.Command, e.Command)
}

// Check refuses, with an [AgainError], in a process that was itself started in this way: of a program that does
// not look at the argument, such as the binary of a test, each process would start others, and they would, too.
func Check() error { return check(os.Args) }

func check(args []string) error {
	if len(args) > 1 && slices.Contains([]string{JobCode, JobCodeInPython, Browser}, args[1]) {
		return &AgainError{args[1]}
	}
	return nil
}
