package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
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
	cmd.AddCommand(newConfigCheck(), newConfigShow(), newConfigExample())
	return cmd
}

func newConfigCheck() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Check the settings, and list all errors",
		Example: "  urifilter config check --config /etc/urifilter/urifilter.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := settings.Path(file)
			cfg, err := loadConfig(path)
			if err != nil {
				return err
			}
			var tokens, certificate error
			if cfg.Auth.TokensFile != "" {
				var warnings []string
				_, warnings, tokens = configs.LoadTokens(cfg.Auth.TokensFile)
				for _, warning := range warnings {
					fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+warning)
				}
			}
			if cfg.TLS.CertFile != "" {
				_, certificate = secret.OpenCertificate(cfg.TLS.CertFile, cfg.TLS.KeyFile)
			}
			if err := errors.Join(tokens, certificate); err != nil {
				return err
			}
			if err := server.CheckCalls(cfg, nil); err != nil {
				return err
			}
			if path == "" {
				path = "defaults and environment"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: good\n", path)
			return err
		},
	}
	settings.Flag(cmd, &file)
	return cmd
}

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

func newConfigExample() *cobra.Command {
	return &cobra.Command{
		Use:     "example",
		Short:   "Print a file of all settings with their defaults and meanings",
		Example: "  urifilter config example > urifilter.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), string(configs.Example))
			return err
		},
	}
}

func loadConfig(path string) (configs.Config, error) {
	return configs.Check(path, os.Environ())
}
