// Package command is the common part of our programs' command lines: exit codes, errors with
// a hint, signals, the version, manual pages, JSON for programs. Each program passes its own
// tree of cobra commands.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/cr-clawer/urifilter/configs/terminal"
)

// Exit codes of every command. A command stopped by a signal exits with 128 plus its number.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// HintMark begins the last line of an error, which suggests the next step.
const HintMark = "\nhint: "

// UsageError is a fault of the command line that shows only once a command runs.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e UsageError) Unwrap() error { return e.Err }

// ExitCode ends the program with this code, without a further message.
type ExitCode int

func (e ExitCode) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// Line is one command line, with its input and outputs. What is written to a terminal goes through terminal.Text.
type Line struct {
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	// Hint returns the next step after an error without its own hint, "" if none is known.
	Hint func(error) string
	// Exit returns the exit code for an error of a command that ran; nil: always ExitFailure.
	Exit func(error) int
}

// Run executes a command line and returns the exit code. Errors begin with the name of root. A command
// whose output could not be written has failed, whether it looks at the errors of its writes or not.
func Run(ctx context.Context, root *cobra.Command, line Line) int {
	out := &output{to: terminal.Protect(line.Out)}
	line.Out, line.Err = out, terminal.Protect(line.Err)
	root.SetArgs(line.Args)
	root.SetIn(line.In)
	root.SetOut(line.Out)
	root.SetErr(line.Err)
	complete(root, line.Args)
	started := false
	markStart(root, &started)
	cmd, err := root.ExecuteContextC(ctx)
	if lost := out.lost(); lost != nil && (err == nil || !started) {
		err, started = lost, true
	}
	var code ExitCode
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &code):
		return int(code)
	case readerLeft(err):
		return exitNoReader
	case !started, errors.As(err, new(UsageError)):
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

// markStart notes when a command's own code begins: any earlier failure is a fault of the
// command line, for which cobra has no error types.
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

// print writes err and the next step: the error's own hint, else the one for errors of
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
	fmt.Fprintf(l.Err, "%s: %s\n", root.Name(), terminal.Text(text))
}

// NewRoot makes a program's root command, with groups of commands. The last group is for help and
// completion.
func NewRoot(root *cobra.Command, groups ...*cobra.Group) *cobra.Command {
	root.Version = ReadVersion().Of(root.Name())
	root.SilenceErrors, root.SilenceUsage, root.DisableFlagsInUseLine = true, true, true
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddGroup(groups...)
	last := groups[len(groups)-1].ID
	root.SetHelpCommandGroupID(last)
	root.SetCompletionCommandGroupID(last)
	root.SetFlagErrorFunc(unknownFlag)
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

// Parent makes cmd, which holds other commands, show its help when called alone, and refuse an
// unknown name with a list of similar ones.
func Parent(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// JSONFlag adds --json.
func JSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON, for programs")
}

// WriteJSON writes the output for --json.
func WriteJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// SettingsPath returns the file of a program's settings: that of the flag, else of the variable,
// else the default one if it exists, else "".
func SettingsPath(flag, variable, def string) string {
	if flag != "" {
		return flag
	}
	if env := os.Getenv(variable); env != "" {
		return env
	}
	// A file that exists but cannot be read is an error to show, not a reason for defaults.
	if _, err := os.Stat(def); !errors.Is(err, os.ErrNotExist) {
		return def
	}
	return ""
}

// NewConfigExample makes the command that prints the file of a program's settings that is their
// manual.
func NewConfigExample(program string, text []byte) *cobra.Command {
	return &cobra.Command{
		Use:     "example",
		Short:   "Print a file of all settings with their defaults and meanings",
		Example: "  " + program + " config example > " + program + ".yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(text)
			return err
		},
	}
}

// NewMan makes the command man, which writes a page for each command of the program.
func NewMan(program, example string) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "man",
		Short:   "Write the manual pages",
		Long:    "Write a manual page for each command. The folder is made if it does not exist.",
		Example: example,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			// The current date would make every build differ.
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: program + " " + ReadVersion().Version, Manual: program}
			if err := doc.GenManTree(root, header, dir); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "manual pages are in %s\n", dir)
			return err
		},
	}
	cmd.Flags().StringVarP(&dir, "dir", "d", "man", "`folder` to write into")
	if err := cmd.MarkFlagDirname("dir"); err != nil {
		panic(err) // --dir is defined above
	}
	return cmd
}
