// Package jail takes away from a process all that untrusted code does not need: files, network,
// other processes, and more than its share of memory and processor time. The loss is permanent for
// the process, in all of its threads. The package starts no process and runs no code.
//
// It uses three mechanisms of Linux, each of which alone would stop most attacks: resource limits
// (setrlimit; memory that can be written to, and all address space), Landlock (no file can be opened; no TCP port connected or bound, from kernel 6.7
// on), and a list of the system calls that the Go runtime needs (seccomp): any other call kills the
// process.
package jail

import (
	"errors"
	"time"
)

// ErrUnsupported is wrapped by errors on a system that lacks a mechanism.
var ErrUnsupported = errors.New("this system cannot jail job code")

// Limits are what a process may use.
type Limits struct {
	Memory int64         // bytes of data that it can write to, including the runtime's own; at least 64 MiB
	CPU    time.Duration // processor time since its start; rounded up to seconds
}
