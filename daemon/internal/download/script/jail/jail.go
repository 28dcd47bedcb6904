// Package jail takes away from a process all that code of strangers has no need of: files,
// network, other processes, and more than its part of memory and of the processor. What it takes
// is gone for the rest of the process, in all of its threads. It starts no process and runs no code.
//
// Three mechanisms of Linux do it, each of which would be enough for most attacks by itself:
// limits of resources (setrlimit), Landlock (no file can be opened; no TCP port connected or
// bound, from kernel 6.7 on), and a list of the system calls that the Go runtime needs (seccomp):
// any other one kills the process.
package jail

import (
	"errors"
	"time"
)

// ErrUnsupported is wrapped by errors of a system that lacks a mechanism.
var ErrUnsupported = errors.New("this system cannot jail job code")

// Limits are what a process may use.
type Limits struct {
	Memory int64         // bytes of data that it can write to, with the runtime's own; at least 64 MiB
	CPU    time.Duration // of the processor, from its start on; rounded up to seconds
}
