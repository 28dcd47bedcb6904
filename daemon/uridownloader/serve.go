package main

import (
	"context"
	"errors"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download/node"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/program/logs"
)

func newServeCommand() *cobra.Command {
	var file, tokens string
	var flags settings.Config
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run all roles in one process: master, dispatcher, worker",
		Long: `Run all roles in one process on this machine: take jobs in over HTTP, hand their tasks
out, download them, keep what came.

Settings come from the file (--config, else URIDOWNLOADER_CONFIG, else
` + defaultPath + ` where it exists), then from URIDOWNLOADER_* in
the environment, then from these flags.

SIGTERM or SIGINT stops it: downloads under way are ended within shutdown_timeout, or
given back, and go on at the next start. SIGHUP makes it read the tokens and the
certificate anew. What was answered, and each result, survives kill -9.`,
		Example: `  # on this machine, with data under the present folder
  uridownloader serve --data-dir ./data

  # also for addresses of this machine and of private networks
  uridownloader serve --data-dir ./data --allow-private`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings.Load(command.SettingsPath(file, configEnv, defaultPath), os.Environ())
			if err != nil {
				return err
			}
			given := cmd.Flags().Changed
			for flag, set := range map[string]func(){
				"listen":        func() { cfg.Listen = flags.Listen },
				"data-dir":      func() { cfg.DataDir = flags.DataDir },
				"allow-private": func() { cfg.AllowPrivate = flags.AllowPrivate },
				"tokens-file":   func() { cfg.Auth.TokensFile = tokens },
				"log-level":     func() { cfg.Log.Level = flags.Log.Level },
			} {
				if given(flag) {
					set()
				}
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			reload := lifecycle.ReloadSignals()
			defer signal.Stop(reload)
			log := logs.New(os.Stderr, cfg.Log.Level, cfg.Log.Format)
			// net/http tells there of servers that misbehave, each of which the task has named already.
			stdlog.SetOutput(slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer())
			n, err := node.Open(cmd.Context(), cfg, log)
			switch {
			case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
				log.Info("stopped before it was ready") // as it was told to
				return nil
			case err != nil:
				return err
			}
			return n.Run(cmd.Context(), reload)
		},
	}
	def := settings.Default()
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "`file` of settings (env "+configEnv+")")
	f.StringVar(&flags.Listen, "listen", def.Listen, "serve HTTP on this `host:port`")
	f.StringVar(&flags.DataDir, "data-dir", def.DataDir, "keep jobs, tasks and data in this `folder`")
	f.BoolVar(&flags.AllowPrivate, "allow-private", def.AllowPrivate, "let tasks go to private and loopback addresses")
	f.StringVar(&tokens, "tokens-file", "", "`file` of the tokens that callers must present")
	f.StringVar(&flags.Log.Level, "log-level", def.Log.Level, "debug, info, warn or error")
	return cmd
}
