package command

import (
	"io"
	"sync"
)

// output is the standard output of a command. It remembers the first error of a write, unless it is that
// the reader has left, which is up to the command.
type output struct {
	to  io.Writer
	mu  sync.Mutex
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil && !OutputClosed(err) {
		o.mu.Lock()
		if o.err == nil {
			o.err = err
		}
		o.mu.Unlock()
	}
	return n, err
}

// Unwrap is for terminal.Stream.
func (o *output) Unwrap() io.Writer { return o.to }

// lost is why output was lost, nil if none was.
func (o *output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
