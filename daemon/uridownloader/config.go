package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/program/service"
	"github.com/cr-clawer/urifilter/systemd"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "config",
		Short:                 "Check the settings, and print all of them with their meanings",
		Example:               "  uridownloader config check --config uridownloader.yaml\n  uridownloader config example > uridownloader.yaml",
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newConfigCheck(), &cobra.Command{
		Use:     "example",
		Short:   "Print a file of all settings with their defaults and meanings",
		Example: "  uridownloader config example > uridownloader.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(configs.ExampleDownloader)
			return err
		},
	})
	return cmd
}

func newConfigCheck() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Check the settings, and list all errors",
		Example: "  uridownloader config check --config " + defaultPath,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := command.SettingsPath(file, configEnv, defaultPath)
			cfg, err := readSettings(path)
			if err != nil {
				return err
			}
			_, warnings, err := configs.OpenTokens(cfg.Auth.TokensFile, settings.Scopes())
			for _, warning := range warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+warning)
			}
			if cfg.TLS.CertFile != "" {
				_, wrong := secret.OpenCertificate(cfg.TLS.CertFile, cfg.TLS.KeyFile)
				err = errors.Join(err, wrong)
			}
			for key, file := range map[string]string{"filter.token_file": cfg.Filter.TokenFile, "mongodb.uri_file": cfg.MongoDB.URIFile, "redis.password_file": cfg.Redis.PasswordFile} {
				if _, wrong := secret.Read(file); wrong != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", key, wrong))
				}
			}
			if err != nil {
				return err
			}
			if path == "" {
				path = "defaults and environment"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: good\n", path)
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "`file` of settings (env "+configEnv+")")
	return cmd
}

func readSettings(path string) (settings.Config, error) {
	cfg, err := settings.Load(path, os.Environ())
	return cfg, errors.Join(err, cfg.Validate())
}

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
