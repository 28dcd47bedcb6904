// Package bitmap holds the commands that copy bit-maps between the store and the archive, and
// show what both contain. They ask a daemon that has the store open, or open it themselves. The
// packages daemon/internal/archive/backup and archive make the copies.
package bitmap

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

// commonFlags are the flags that the bitmap commands share.
type commonFlags struct {
	config, dataDir, server string
	token                   command.Credential
	asJSON, quiet, yield    bool
	wait                    time.Duration // for other processes
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
		b.token.Register(cmd, "URIFILTER")
		f.DurationVar(&b.wait, "wait", leaseWait, "how long to wait for a daemon that still starts, or a command that has the store open, and for another writeback of the same filter")
	}
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

func newInit() *cobra.Command {
	var flags commonFlags
	cmd := &cobra.Command{
		Use:   "init [NAME...]",
		Short: "Create the filters of the settings that store or archive lacks",
		Long: `For each filter of the settings: where neither store nor archive has a bit-map, make
it in the store; where the archive alone has one, restore it; and where the archive has
none, write the first version. Filters of other kinds are made in the store. What is
there is not changed, so that a second run says "unchanged".`,
		Example: "  urifilter bitmap init --config /etc/urifilter/urifilter.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, &flags, args, func(w *work) error { return w.init(args) })
		},
	}
	flags.register(cmd, true)
	return cmd
}

func newUpdate() *cobra.Command {
	var flags commonFlags
	cmd := &cobra.Command{
		Use:   "update [NAME...]",
		Short: "Write bit-maps back to the archive now",
		Long: `Write bit-maps back to the archive now. Only what has changed since the last version is
sent; what others wrote meanwhile is kept. However it ends, the last good version stays.

A filter that another daemon is writing back at that moment is waited for, up to --wait;
--yield leaves it to that one: right for daemons that share a store, for they write the
same bit-map.`,
		Example: `  urifilter bitmap update
  urifilter bitmap update --wait 0         # or fail at once
  urifilter bitmap update uri ip --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, &flags, args, func(w *work) error { return w.update(args) })
		},
	}
	flags.register(cmd, true)
	cmd.Flags().BoolVar(&flags.yield, "yield", false, "skip filters that another daemon is writing back")
	return cmd
}

func newRestore() *cobra.Command {
	var flags commonFlags
	var version string
	cmd := &cobra.Command{
		Use:   "restore [NAME...]",
		Short: "Put archived bit-maps back into the store",
		Long: `Set in the store all bits of an archived version, the newest one if --version names no
other. What the store remembers already stays. A filter that the store lacks is made.
A version that is damaged is refused; an older one may be whole.`,
		Example: `  urifilter bitmap restore uri
  urifilter bitmap restore --version uri-12 uri`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version != "" && len(args) != 1 {
				return command.UsageError{Err: fmt.Errorf("--version %s: want one NAME with it, not %d", version, len(args))}
			}
			return withStore(cmd, &flags, args, func(w *work) error { return w.restore(args, version) })
		},
	}
	flags.register(cmd, true)
	cmd.Flags().StringVar(&version, "version", "", "`id` of the version, as `urifilter bitmap list` shows it")
	return cmd
}

func newList() *cobra.Command {
	var flags commonFlags
	cmd := &cobra.Command{
		Use:     "list [NAME...]",
		Short:   "List the versions in the archive, newest first",
		Example: "  urifilter bitmap list uri",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withArchive(cmd, &flags, func(s *shelf) error { return s.list(args) })
		},
	}
	flags.register(cmd, false)
	return cmd
}

func newVerify() *cobra.Command {
	var flags commonFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "verify [NAME...]",
		Short: "Check the archive's newest versions, byte for byte",
		Long: `Read the newest version of each filter from the archive, or with --all each version, and
check it against its checksums. Nothing is changed. It exits with 1 when there is damage.`,
		Example: "  urifilter bitmap verify --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			return withArchive(cmd, &flags, func(s *shelf) error { return s.verify(args, all) })
		},
	}
	flags.register(cmd, false)
	cmd.Flags().BoolVar(&all, "all", false, "check every version, not the newest alone")
	return cmd
}
