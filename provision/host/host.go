// Package host is the interface between the toolkit's steps and a server: what a step may
// do on a host, and ask of it. Package remote implements it over SSH.
package host

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// Host is an open connection to a server. It is safe for concurrent use.
type Host interface {
	// Name is the host's name in the inventory.
	Name() string
	// Run runs a command to its end. The error is a *CommandError when the command
	// ended with an exit code that is neither 0 nor in OK, a *ConnectionError when the
	// connection died, so that the command's outcome is unknown, and ctx.Err()
	// when ctx ended first: the command has then been sent SIGHUP.
	Run(ctx context.Context, c Command) (Output, error)
	// Upload replaces a file atomically: it uploads under another name, checks the
	// SHA-256 on the host, then renames. After an error the old file is unchanged and
	// nothing else is left. The folder of Path must exist.
	Upload(ctx context.Context, u Upload) error
}

// Command is run by /bin/sh on the host.
type Command struct {
	// Script is shell text. Quote values in it. Never put secrets there: they would be
	// in the process list. Pass them through Stdin.
	Script string
	// Stdin is what the command reads; nil: nothing.
	Stdin io.Reader
	// Root runs it as root, with sudo if the login is another user.
	Root bool
	// User runs it as this user of the host, by way of root. "": see Root.
	User string
	// Secret keeps output out of errors and logs.
	Secret bool
	// OK lists exit codes other than 0 that are not errors.
	OK []int
	// Look means that the command changes nothing, and that its output stays the same until a command
	// that changes something runs on the host: it may be that of an equal command before. Watch
	// means that it changes nothing, and that its output changes by itself, such as the state of a
	// service that has just been started.
	Look, Watch bool
}

// Output is the result of a command.
type Output struct {
	Stdout, Stderr string
	Code           int
}

// Upload is a file to upload to a host.
type Upload struct {
	Source io.ReaderAt
	Size   int64 // bytes
	// SHA256, in hexadecimal, is what was checked of the source, which is refused if it has changed since; "": nothing was.
	SHA256 string
	Path   string
	Mode   fs.FileMode
	// Owner and Group are names on the host; "": root.
	Owner, Group string
	// Progress is called with the bytes sent so far. It may be nil.
	Progress func(sent, size int64)
}

// CommandError is a failed command.
type CommandError struct {
	Host   string
	Script string // its first line, shortened; "" for a secret command
	Output Output // Stdout and Stderr are empty for a secret command
}

// Error is short: the exit code and the last line of output. All of it is in Output.
func (e *CommandError) Error() string {
	what := "command"
	if e.Script != "" {
		what = e.Script
	}
	return fmt.Sprintf("%s: exit code %d: %s", what, e.Output.Code, LastLine(e.Output.Stderr, e.Output.Stdout))
}

// ConnectionError is a connection that died or could not be made.
type ConnectionError struct {
	Host string
	Err  error
}

func (e *ConnectionError) Error() string { return fmt.Sprintf("connection to %s: %v", e.Host, e.Err) }

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// LastLine returns the last line of the first text that has one, or words for people that say that there is none.
func LastLine(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
		}
	}
	return "it wrote nothing"
}

// Quote quotes any text without NUL as one word of sh.
func Quote(text string) string {
	plain := text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+") == ""
	if plain {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Words is a command line of words, each quoted where that is needed.
func Words(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// AsRoot runs a script as root for what it does: its output is not wanted.
func AsRoot(ctx context.Context, h Host, script string) error {
	_, err := h.Run(ctx, Command{Script: script, Root: true})
	return err
}

// As unwraps hosts that only watch another one until it finds a T: a connection that can
// open tunnels, for example. Wrappers have a method Unwrap() Host.
func As[T any](h Host) (T, bool) {
	for h != nil {
		if t, ok := h.(T); ok {
			return t, true
		}
		wrapper, ok := h.(interface{ Unwrap() Host })
		if !ok {
			break
		}
		h = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// maxInput bounds what Input reads, in bytes.
const maxInput = 64 << 10

// Input returns a command's input, if it is short and can be read again, as that of a strings.Reader; "" for none.
func Input(c Command) (text string, known bool) {
	if c.Stdin == nil {
		return "", true
	}
	sized, is := c.Stdin.(interface {
		io.ReadSeeker
		Len() int
	})
	if !is || sized.Len() > maxInput {
		return "", false
	}
	at, err := sized.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", false
	}
	read, err := io.ReadAll(sized)
	if _, again := sized.Seek(at, io.SeekStart); err != nil || again != nil {
		return "", false
	}
	return string(read), true
}

// Sleep waits for d, or until ctx ends; then it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Files of the toolkit on hosts have its name, whatever program they are for.
const (
	// Toolkit is that name, for files.
	Toolkit = "urifilter-toolkit"
	// Written begins the comment at the head of a file.
	Written = "Written by the urifilter toolkit"
	// LockPath is where it keeps two runs apart.
	LockPath = "/run/" + Toolkit + ".lock"
)
