package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// command returns a command whose whole process group ends with ctx, and which inherits the
// locks that ctx holds, from descriptor 3 on. runCommand must run it.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.ExtraFiles = held(ctx)
	ownGroup(cmd)
	return cmd
}

// runCommand runs a program to its end, on one thread: see ownGroup.
func runCommand(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

func run(ctx context.Context, name string, args ...string) error {
	return runInput(ctx, "", name, args...)
}

func runInput(ctx context.Context, input, name string, args ...string) error {
	cmd := command(ctx, name, args...)
	var all bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &all, &all
	return runPlain(ctx, cmd, &all)
}

// output runs a program and returns its standard output.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := command(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := runPlain(ctx, cmd, &stderr)
	return stdout.String(), err
}

// runPlain runs a command in the plain environment; its error has what the command said.
func runPlain(ctx context.Context, cmd *exec.Cmd, said *bytes.Buffer) error {
	cmd.Env = plainEnv()
	err := runCommand(cmd)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &runError{command: strings.Join(cmd.Args, " "), output: said.String(), err: err}
}

// runError is the error of a program that failed.
type runError struct {
	command, output string
	err             error
}

func (e *runError) Error() string {
	return fmt.Sprintf("%s: %v: %s", e.command, e.err, tail(e.output, 20))
}

func (e *runError) Unwrap() error { return e.err }

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// plainEnv returns the environment, for English messages and with the folders of root's programs.
func plainEnv() []string {
	return append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive",
		"PATH="+os.Getenv("PATH")+":/usr/sbin:/usr/bin:/sbin:/bin")
}

// started returns when a process began, in ticks since the machine's boot.
func started(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is a name in parentheses, which may contain anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields after the name", pid, len(fields))
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
