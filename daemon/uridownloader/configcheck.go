package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download/node"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
)

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
			for _, of := range []struct {
				key, file string
				read      func(path string) (string, error)
			}{
				{"filter.token_file", cfg.Filter.TokenFile, secret.ReadToken}, {"mongodb.uri_file", cfg.MongoDB.URIFile, secret.Read},
				{"redis.password_file", cfg.Redis.PasswordFile, secret.Read}, {"report.webhook_token_file", cfg.Report.WebhookTokenFile, secret.ReadToken},
				{"report.mail_password_file", cfg.Report.MailPasswordFile, secret.Read},
			} {
				if _, wrong := of.read(of.file); wrong != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", of.key, wrong))
				}
			}
			if err = errors.Join(err, node.CheckCalls(cfg)); err != nil {
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
