package main

import (
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/service"
	"github.com/cr-clawer/urifilter/systemd"
)

func newServiceCommand() *cobra.Command {
	return service.NewCommand(service.Settings{
		Program: systemd.Urifilter(), Default: defaultConfigPath, Find: configPath,
		Read: func(file string) (systemd.Params, error) {
			cfg, err := loadConfig(file)
			return systemd.Params{DataDir: cfg.DataDir, Listen: []string{cfg.Listen}}, err
		},
	})
}
