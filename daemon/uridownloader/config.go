package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "config",
		Short:                 "Check the settings, and print all of them with their meanings",
		Example:               "  uridownloader config check --config uridownloader.yaml\n  uridownloader config example > uridownloader.yaml",
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newConfigCheck(), command.NewConfigExample("uridownloader", configs.ExampleDownloader))
	return cmd
}

func readSettings(path string) (settings.Config, error) {
	cfg, err := settings.Load(path, os.Environ())
	return cfg, errors.Join(err, cfg.Validate())
}
