package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show the daemon's settings",
		Long: `Check and show the settings of a daemon started here and now: the defaults, overridden
by the file (--config, else URIFILTER_CONFIG, else ` + settings.DefaultPath + ` where
it exists), overridden by URIFILTER_* in the environment.`,
		Example: `  urifilter config check --config urifilter.yaml
  urifilter config example > urifilter.yaml`,
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newConfigCheck(), newConfigShow(), command.NewConfigExample("urifilter", configs.Example))
	return cmd
}

func loadConfig(path string) (configs.Config, error) {
	return configs.Check(path, os.Environ())
}
