package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

const (
	groupFilter = "filter"
	groupDaemon = "daemon"
	groupOther  = "other"
)

// usageError is a fault of the command line that shows only once a command runs.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	started := false
	markStart(root, &started)
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	var code exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case !started, errors.As(err, &usage):
		printError(errOut, err, fmt.Sprintf("`%s --help` shows what it takes", cmd.CommandPath()))
		return exitUsage
	default:
		printError(errOut, err, "")
		if signal, ok := stoppedBy(ctx, err); ok {
			return signal.exitCode()
		}
		return exitFailure
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

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "urifilter",
		Short: "Remember what has been seen; say what is new",
		Long: `urifilter remembers what has been seen, and says what is new.

A daemon (urifilter serve) keeps the filters. Crawlers ask it over HTTP; people and
scripts with the commands below. An item is a URI, an IP address, any line or JSON
value; a filter is a named set of items.

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 after Ctrl-C (128 and the
number of the signal); "service" has two more.`,
		Example: `  # start a daemon on this machine, with its data under the present folder
  urifilter serve --data-dir ./data

  # which of these lines are new?
  urifilter filter --type uri_generator links.txt`,
		Version:               readVersion().String(),
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddGroup(
		&cobra.Group{ID: groupFilter, Title: "Ask a daemon:"},
		&cobra.Group{ID: groupDaemon, Title: "Run a daemon:"},
		&cobra.Group{ID: groupOther, Title: "More:"},
	)
	holdsOthers(root)
	add(root, groupFilter, newFilterCommand(), newCheckCommand(), newFiltersCommand())
	add(root, groupDaemon, newServeCommand(), newVerifyCommand(), newBitmapCommand(), newConfigCommand(), newTokenCommand(), newServiceCommand())
	add(root, groupOther, newVersionCommand(), newManCommand())
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	return root
}

func add(parent *cobra.Command, group string, children ...*cobra.Command) {
	for _, child := range children {
		child.GroupID = group
		parent.AddCommand(child)
	}
}

// holdsOthers makes cmd show its help when it is called alone, and refuse a name that
// none of its commands has, with those that are like it.
func holdsOthers(cmd *cobra.Command) {
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
