package main

import (
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/service"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
	"github.com/cr-clawer/urifilter/systemd"
)

func newServiceCommand() *cobra.Command {
	return service.NewCommand(service.Settings{
		Program: systemd.Urifilter(), Default: settings.DefaultPath, Find: settings.Path,
		Read: func(file, _ string) (systemd.Params, error) {
			cfg, err := loadConfig(file)
			return systemd.Params{DataDir: cfg.DataDir, Listen: []string{cfg.Listen}}, err
		},
	})
}
