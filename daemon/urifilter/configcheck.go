package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

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
			var tokens, certificate, redis, mysql error
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
			if cfg.Store == "redis" {
				redis = readable("redis.password_file", cfg.Redis.PasswordFile)
			}
			if cfg.MySQL.Addr != "" {
				mysql = readable("mysql.password_file", cfg.MySQL.PasswordFile)
			}
			if err := errors.Join(tokens, certificate, redis, mysql, server.CheckCalls(cfg, nil)); err != nil {
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

// readable says why the daemon could not read the secret in a file of the settings; nil: it can.
func readable(key, file string) error {
	if _, err := secret.Read(file); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
