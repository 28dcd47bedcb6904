package node

import (
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/errorreport"
	"github.com/cr-clawer/urifilter/daemon/internal/download/report"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
)

// openFaults opens the reporter that sends logged errors to an error service, and the log in front of it.
func openFaults(dsn string, roles Roles, log *slog.Logger) (*errorreport.Reporter, *slog.Logger, error) {
	if dsn == "" {
		return nil, log, nil
	}
	faults, err := errorreport.New(errorreport.Options{DSN: dsn, Release: "uridownloader@" + command.ReadVersion().Version, Role: roles.String()})
	if err != nil {
		return nil, nil, fmt.Errorf("report.dsn: %w", err)
	}
	log.Info("errors are sent", "to", errorreport.Place(dsn))
	return faults, slog.New(faults.Handler(log.Handler())), nil
}

// openReporter opens the reporter for jobs whose tasks have ended, with the secrets that it needs.
func openReporter(cfg settings.Report, store download.Store, log *slog.Logger, registry prometheus.Registerer) (*report.Reporter, error) {
	o := report.Options{Store: store, Log: log, Registry: registry}
	if cfg.Webhook != "" {
		token, err := secret.Read(cfg.WebhookTokenFile)
		if err != nil {
			return nil, fmt.Errorf("report.webhook_token_file: %w", err)
		}
		o.Webhook = &report.Webhook{URL: cfg.Webhook, Token: token}
	}
	if cfg.MailServer != "" {
		password, err := secret.Read(cfg.MailPasswordFile)
		if err != nil {
			return nil, fmt.Errorf("report.mail_password_file: %w", err)
		}
		o.Mail = &report.Mail{Server: cfg.MailServer, From: cfg.MailFrom, User: cfg.MailUser, Password: password, TLS: cfg.MailTLS}
	}
	return report.New(o), nil
}
