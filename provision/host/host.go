// Package host is the seam between the toolkit's steps and a server: what a step may
// do to a host, and what it may ask of one. It opens no connection; package remote
// does that over SSH.
package host

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Host is an open connection to a server. It is safe for concurrent use.
type Host interface {
	// Name is the host's name in the inventory.
	Name() string
	// Run runs a command to its end. The error is a *CommandError when the command
	// ended with an exit code that is neither 0 nor in OK, a *ConnectionError when the
	// connection died, so that nobody knows what became of the command, and ctx.Err()
	// when ctx ended first: the command has then been sent a hang-up.
	Run(ctx context.Context, c Command) (Output, error)
	// Upload puts a file in place in one step: under another name, checked by its
	// SHA-256 on the host, then renamed. After an error the old file is as it was and
	// nothing else is left. Folders above Path must be there.
	Upload(ctx context.Context, u Upload) error
}

// Command is run by /bin/sh on the host.
type Command struct {
	// Script is shell text. Values go into it by Quote, secrets never: they would be
	// in the process list. They go by Stdin.
	Script string
	// Stdin is what the command reads; nil: nothing.
	Stdin io.Reader
	// Root runs it as root, by sudo where the login is another user.
	Root bool
	// User runs it as this user of the host, which takes root first. "": as Root says.
	User string
	// Secret keeps output out of errors and logs.
	Secret bool
	// OK are exit codes beside 0 that are an answer and no error.
	OK []int
}

// Output is what a command left behind.
type Output struct {
	Stdout, Stderr string
	Code           int
}

// Upload is a file to be put on a host.
type Upload struct {
	Source io.ReaderAt
	Size   int64 // bytes
	Path   string
	Mode   fs.FileMode
	// Owner and Group are names on the host; "": root.
	Owner, Group string
	// Progress is told the bytes sent so far; nil: nobody is.
	Progress func(sent, size int64)
}

// CommandError is a command that ended badly.
type CommandError struct {
	Host   string
	Script string // its first line, shortened; "" for a secret command
	Output Output // Stdout and Stderr are empty for a secret command
}

// Error is short: the exit code and the last line that the command wrote. The whole is in Output.
func (e *CommandError) Error() string {
	last := lastLine(e.Output.Stderr)
	if last == "" {
		last = lastLine(e.Output.Stdout)
	}
	if last == "" {
		last = "it wrote nothing"
	}
	what := "command"
	if e.Script != "" {
		what = e.Script
	}
	return fmt.Sprintf("%s: exit code %d: %s", what, e.Output.Code, last)
}

// ConnectionError is a connection that died or never came to be.
type ConnectionError struct {
	Host string
	Err  error
}

func (e *ConnectionError) Error() string { return fmt.Sprintf("connection to %s: %v", e.Host, e.Err) }

// Unwrap gives the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// Quote makes one word of sh from any text without NUL.
func Quote(text string) string {
	plain := text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+") == ""
	if plain {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
