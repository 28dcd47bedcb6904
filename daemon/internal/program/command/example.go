package command

import "github.com/spf13/cobra"

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
