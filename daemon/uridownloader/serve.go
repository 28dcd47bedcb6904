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

// flags are the flags of commands that serve: they override the settings.
type flags struct {
	cmd  *cobra.Command
	file string
	set  map[string]func(*settings.Config)
}

func newFlags(cmd *cobra.Command) *flags {
	f := &flags{cmd: cmd, set: map[string]func(*settings.Config){}}
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "`file` of settings (env "+configEnv+")")
	f.text("data-dir", settings.Default().DataDir, "keep jobs, tasks and data in this `folder`", func(c *settings.Config) *string { return &c.DataDir })
	f.text("log-level", settings.Default().Log.Level, "debug, info, warn or error", func(c *settings.Config) *string { return &c.Log.Level })
	return f
}

// text adds a flag for a setting.
func (f *flags) text(name, value, usage string, of func(*settings.Config) *string) {
	given := f.cmd.Flags().String(name, value, usage)
	f.set[name] = func(c *settings.Config) { *of(c) = *given }
}

func (f *flags) listen(what string, of func(*settings.Config) *string) {
	def := settings.Default()
	f.text("listen", *of(&def), what+" on this `host:port`", of)
}

func (f *flags) tokens() {
	f.text("tokens-file", "", "`file` of the tokens that callers must present", func(c *settings.Config) *string { return &c.Auth.TokensFile })
}

func (f *flags) allowPrivate() {
	given := f.cmd.Flags().Bool("allow-private", false, "let tasks go to private and loopback addresses")
	f.set["allow-private"] = func(c *settings.Config) { c.AllowPrivate = *given }
}

// read reads the settings, and returns them with the log that they configure.
func (f *flags) read() (settings.Config, *slog.Logger, error) {
	cfg, err := settings.Load(command.SettingsPath(f.file, configEnv, defaultPath), os.Environ())
	if err != nil {
		return cfg, nil, err
	}
	unflagged := cfg.Validate()
	for name, set := range f.set {
		if f.cmd.Flags().Changed(name) {
			set(&cfg)
		}
	}
	if err = cfg.Validate(); err != nil && unflagged == nil {
		err = command.UsageError{Err: err} // the flags alone are at fault
	}
	return cfg, logs.New(os.Stderr, cfg.Log.Level, cfg.Log.Format), err
}

// serve runs the roles until the command's context ends.
func (f *flags) serve(roles node.Roles) error {
	cfg, log, err := f.read()
	if err != nil {
		return err
	}
	ctx := f.cmd.Context()
	reload := lifecycle.ReloadSignals()
	defer signal.Stop(reload)
	// net/http logs misbehaving servers there; the log of the task has named each of them already.
	stdlog.SetOutput(slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer())
	n, err := node.Open(ctx, cfg, roles, log)
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		log.Info("stopped before it was ready") // as requested
		return nil
	case err != nil:
		return err
	}
	return n.Run(ctx, reload)
}

const likeServe = `

Settings are read, and SIGTERM, SIGHUP and kill -9 work, as with "serve".`

func newServeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run all roles in one process: master, dispatcher, worker",
		Long: `Run all roles in one process on this machine: take jobs in over HTTP, hand their tasks
out, download them, keep what came.

Settings come from the file (--config, else URIDOWNLOADER_CONFIG, else
` + defaultPath + ` where it exists), then from URIDOWNLOADER_* in
the environment, then from these flags.

SIGTERM or SIGINT stops it: downloads under way are ended within shutdown_timeout, or
given back, and go on at the next start. SIGHUP makes it reload the tokens and the
certificate. What was answered, and each result, survives kill -9.`,
		Example: `  # on this machine, with data under the present folder
  uridownloader serve --data-dir ./data

  # also for addresses of this machine and of private networks
  uridownloader serve --data-dir ./data --allow-private`,
		Args: cobra.NoArgs,
	}
	f := newFlags(cmd)
	f.listen("serve HTTP", func(c *settings.Config) *string { return &c.Listen })
	f.tokens()
	f.allowPrivate()
	cmd.RunE = func(*cobra.Command, []string) error { return f.serve(node.All()) }
	return cmd
}
