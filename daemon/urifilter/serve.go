package main

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/program/logs"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

func newServeCommand() *cobra.Command {
	var file, tokens string
	var flags configs.Config
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Run the daemon: answer over HTTP which items are new, and remember them.

Settings come from the file (--config, else URIFILTER_CONFIG, else
/etc/urifilter/urifilter.yaml where it exists), then from URIFILTER_* in the
environment, then from these flags.

SIGTERM or SIGINT stops it: running requests are answered first, and clients are
asked to open another connection. SIGHUP makes it reload the tokens and the
certificates; if they have errors, the old ones stay in use (at a terminal
SIGHUP ends it). It exits with 1 when its disk fails, so that a service manager
restarts it. A socket passed by systemd overrides --listen.`,
		Example: `  # on this machine, with data under the present folder
  urifilter serve --data-dir ./data

  # as on a server
  urifilter serve --config /etc/urifilter/urifilter.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := configs.Load(settings.Path(file), os.Environ())
			if err != nil {
				return err
			}
			unflagged := cfg.Validate()
			given := cmd.Flags().Changed
			for _, o := range []struct {
				flag string
				to   *string
				from string
			}{
				{"listen", &cfg.Listen, flags.Listen},
				{"data-dir", &cfg.DataDir, flags.DataDir},
				{"durability", &cfg.Durability, flags.Durability},
				{"tokens-file", &cfg.Auth.TokensFile, tokens},
				{"log-level", &cfg.Log.Level, flags.Log.Level},
			} {
				if given(o.flag) {
					*o.to = o.from
				}
			}
			if err := cfg.Validate(); err != nil && unflagged == nil {
				return command.UsageError{Err: err} // the flags alone are at fault
			} else if err != nil {
				return err
			}
			reload := lifecycle.ReloadSignals()
			defer signal.Stop(reload)
			log := logs.New(os.Stderr, cfg.Log.Level, cfg.Log.Format)
			d, err := server.New(cmd.Context(), cfg, log)
			switch {
			case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
				log.Info("stopped before it was ready") // as requested
				return nil
			case err != nil:
				return err
			}
			return d.Run(cmd.Context(), reload)
		},
	}
	def := configs.Default()
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "`file` of settings")
	f.StringVar(&flags.Listen, "listen", def.Listen, "serve HTTP on this `host:port`")
	f.StringVar(&flags.DataDir, "data-dir", def.DataDir, "keep bit-maps in this `folder`")
	f.StringVar(&flags.Durability, "durability", def.Durability, "when an answer is given: always (after an fsync), interval or none")
	f.StringVar(&tokens, "tokens-file", "", "`file` of the tokens that callers must present")
	f.StringVar(&flags.Log.Level, "log-level", def.Log.Level, "debug, info, warn or error")
	return cmd
}
