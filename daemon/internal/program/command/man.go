package command

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

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
