// Package command is what the command lines of our programs share: exit codes, errors with
// a hint, signals, the version, manual pages, JSON for programs. A program gives it its own
// tree of cobra commands.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of every command. One that was stopped by a signal has 128 and its number.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// HintMark begins the last line of an error, which says what to do next.
const HintMark = "\nhint: "

// UsageError is a fault of the command line that shows only once a command runs.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e UsageError) Unwrap() error { return e.Err }

// ExitCode ends the program with a code of its own, when all has been said.
type ExitCode int

func (e ExitCode) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// Line is one command line, and where it reads and writes.
type Line struct {
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	// Hint is the next step after an error that has none of its own, "" if none is known.
	Hint func(error) string
	// Exit is the exit code for an error of a command that ran; nil: always ExitFailure.
	Exit func(error) int
}

// Run executes a command line and returns the exit code. Errors begin with the name of root.
func Run(ctx context.Context, root *cobra.Command, line Line) int {
	root.SetArgs(line.Args)
	root.SetIn(line.In)
	root.SetOut(line.Out)
	root.SetErr(line.Err)
	started := false
	markStart(root, &started)
	cmd, err := root.ExecuteContextC(ctx)
	var usage UsageError
	var code ExitCode
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &code):
		return int(code)
	case !started, errors.As(err, &usage):
		line.print(root, err, fmt.Sprintf("`%s --help` shows what it takes", cmd.CommandPath()))
		return ExitUsage
	default:
		line.print(root, err, "")
		if signal, ok := stoppedBy(ctx, err); ok {
			return signal.exitCode()
		}
		if line.Exit != nil {
			return line.Exit(err)
		}
		return ExitFailure
	}
}

// markStart notes when a command's own code begins: whatever fails before is a fault of
// the command line, and cobra has no types for those.
func markStart(cmd *cobra.Command, started *bool) {
	if runE := cmd.RunE; runE != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return runE(cmd, args)
		}
	}
	for _, child := range cmd.Commands() {
		markStart(child, started)
	}
}

// print writes err, and what to do next: the error's own hint, else the one for errors of
// its kind, else other.
func (l Line) print(root *cobra.Command, err error, other string) {
	text := err.Error()
	if !strings.Contains(text, HintMark) {
		if hint := l.Hint(err); hint != "" {
			other = hint
		}
		if other != "" {
			text += HintMark + other
		}
	}
	fmt.Fprintf(l.Err, "%s: %s\n", root.Name(), text)
}

// NewRoot makes a program's own command of what is the program's alone, with groups of commands, the
// last of which is for help and completion.
func NewRoot(root *cobra.Command, groups ...*cobra.Group) *cobra.Command {
	root.Version = ReadVersion().Of(root.Name())
	root.SilenceErrors, root.SilenceUsage, root.DisableFlagsInUseLine = true, true, true
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddGroup(groups...)
	last := groups[len(groups)-1].ID
	root.SetHelpCommandGroupID(last)
	root.SetCompletionCommandGroupID(last)
	Parent(root)
	return root
}

// Add adds commands to one of the groups of root.
func Add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// Parent makes cmd, which holds other commands, show its help when it is called alone, and
// refuse a name that none of them has, with those that are like it.
func Parent(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		text := fmt.Sprintf("unknown command %q", args[0])
		if cmd.HasParent() {
			text = cmd.Name() + ": " + text
		}
		if cmd.SuggestionsMinimumDistance <= 0 {
			cmd.SuggestionsMinimumDistance = 2
		}
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			text += "; did you mean " + strings.Join(like, " or ") + "?"
		}
		return errors.New(text)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// JSONFlag adds --json.
func JSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON, for programs")
}

// WriteJSON writes what --json asks for.
func WriteJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}
