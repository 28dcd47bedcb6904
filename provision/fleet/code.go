package fleet

import (
	"context"
	"errors"
)

// Exit codes; the package comment says what they mean.
const (
	CodeDone        = 0
	CodeFailed      = 1
	CodeUsage       = 2
	CodeUnreachable = 3
	CodeLocked      = 4
	CodeChanges     = 5
	CodeInterrupted = 130
)

// Error is a run that did not do all that was asked for. Its text is short: the report
// has told the rest.
type Error struct {
	Code int
	Err  error
	// Told is that the report has said the same already.
	Told bool
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Usage makes an error of a wrong setting or call.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: CodeUsage, Err: err}
}

// Code is the exit code for err: that of an *Error, 130 for a context that was
// cancelled, 1 for others, 0 for nil.
func Code(err error) int {
	var coded *Error
	switch {
	case err == nil:
		return CodeDone
	case errors.As(err, &coded):
		return coded.Code
	case errors.Is(err, context.Canceled):
		return CodeInterrupted
	}
	return CodeFailed
}
