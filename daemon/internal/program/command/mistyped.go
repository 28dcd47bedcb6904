package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cr-clawer/urifilter/configs/strict"
)

// complete makes what cobra adds to a program, help and completion, refuse unknown names as
// Parent does: cobra answers them with a help text and exit code 0.
func complete(root *cobra.Command, args []string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			show := c.Run
			c.Args = func(_ *cobra.Command, args []string) error {
				found, left, err := root.Find(args)
				if err != nil || len(left) == 0 {
					return err
				}
				return unknownCommand(found, left[0])
			}
			c.RunE = func(cmd *cobra.Command, args []string) error {
				show(cmd, args)
				return nil
			}
		case "completion":
			Parent(c)
		}
	}
}

// unknownCommand is the error for a name that is no command under parent.
func unknownCommand(parent *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q", name)
	if parent.HasParent() {
		text = parent.Name() + ": " + text
	}
	if parent.SuggestionsMinimumDistance <= 0 {
		parent.SuggestionsMinimumDistance = 2
	}
	if like := parent.SuggestionsFor(name); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return errors.New(text)
}

// unknownFlag adds to the error for an unknown flag the one that was probably meant.
func unknownFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := strict.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}
