package main

import (
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

func newConfigShow() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Print the settings in effect, without secrets",
		Example: "  URIFILTER_DURABILITY=interval urifilter config show",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(settings.Path(file))
			if err != nil {
				return err
			}
			text, err := cfg.YAML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	settings.Flag(cmd, &file)
	return cmd
}
