package main

import (
	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/service"
	"github.com/cr-clawer/urifilter/systemd"
)

func newServiceCommand() *cobra.Command {
	return service.NewCommand(service.Settings{
		Program: systemd.Uridownloader(), Default: defaultPath,
		Find: func(flag string) string { return command.SettingsPath(flag, configEnv, defaultPath) },
		Read: func(file, run string) (systemd.Params, error) {
			cfg, err := readSettings(file)
			listen := cfg.Listen
			switch run {
			case "worker":
				listen = cfg.Worker.Listen
			case "dispatch":
				listen = cfg.Dispatch.Listen
			}
			return systemd.Params{DataDir: cfg.DataDir, Listen: []string{listen}}, err
		},
	})
}
