// Package bitmap holds the commands that copy bit-maps between the store and the archive, and
// show what both contain. They ask a daemon that has the store open, or open it themselves. The
// packages daemon/internal/archive/backup and archive make the copies.
package bitmap

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

// commonFlags are the flags that the bitmap commands share.
type commonFlags struct {
	config, dataDir, server string
	token                   connection.Credential
	asJSON, quiet, yield    bool
	wait                    time.Duration // for other processes that are writing back
}

// New makes the command bitmap.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bitmap",
		Short: "Copy bit-maps to and from the archive",
		Long: `Copy bit-maps to and from the archive in MongoDB that the settings name, and look at
what is there. NAMEs are filters; without any, all that have a bit-map are meant: those
of the kind bloom.

init, update and restore work while a daemon runs, by asking it, and without one, by
opening the store themselves; they say which way they took. --server or URIFILTER_URL
names a daemon to ask in any case. A daemon that has tokens asks for one of the scope
admin (--token-file or URIFILTER_TOKEN). verify and list look at the archive alone.`,
		Example: `  urifilter bitmap update                  # write all back now
  urifilter bitmap status
  urifilter bitmap restore --version uri-12 uri`,
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newInit(), newUpdate(), newRestore(), newVerify(), newStatus(), newList())
	return cmd
}

func (b *commonFlags) register(cmd *cobra.Command, store bool) {
	settings.Flag(cmd, &b.config)
	command.JSONFlag(cmd, &b.asJSON)
	f := cmd.Flags()
	f.BoolVarP(&b.quiet, "quiet", "q", false, "show neither progress nor how the store is reached")
	if store {
		f.StringVar(&b.dataDir, "data-dir", configs.Default().DataDir, "the embedded store's `folder`")
		f.StringVarP(&b.server, "server", "s", "", "ask the daemon at this `URL` (env URIFILTER_URL)")
		b.token.Register(cmd)
	}
}

func (b *commonFlags) registerWait(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&b.wait, "wait", leaseWait, "how long to wait for another daemon that is writing back the same filter")
}

// load reads the settings; flags override them.
func (b *commonFlags) load(cmd *cobra.Command) (configs.Config, error) {
	cfg, err := configs.Load(settings.Path(b.config), os.Environ())
	if err != nil {
		return cfg, err
	}
	if cmd.Flags().Changed("data-dir") {
		cfg.DataDir = b.dataDir
	}
	return cfg, cfg.Validate()
}

var errNoArchive = errors.New("mongodb.uri: none is set\nhint: name the archive in the settings (--config) or by URIFILTER_MONGODB_URI")
