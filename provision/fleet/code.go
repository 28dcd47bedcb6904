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

// Error reports a run that did not complete. Its text is short: the report
// has the details.
type Error struct {
	Code int
	Err  error
	// Told is set if the report has already said this.
	Told bool
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Usage returns an error for a wrong setting or call.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: CodeUsage, Err: err}
}

// Code returns the exit code for err: the code of an *Error, 130 if a context was
// cancelled, 1 for other errors, 0 for nil.
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
