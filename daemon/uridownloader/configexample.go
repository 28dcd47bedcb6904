package main

import (
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
)

func newConfigExample() *cobra.Command {
	return &cobra.Command{
		Use:     "example",
		Short:   "Print a file of all settings with their defaults and meanings",
		Example: "  uridownloader config example > uridownloader.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(configs.ExampleDownloader)
			return err
		},
	}
}
