package bitmap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
)

// storeAccess is the process that has the store open and can copy its bit-maps: a daemon, or this process.
type storeAccess interface {
	// describe names that process, for people.
	describe() string
	filters(ctx context.Context) (client.FilterList, error)
	// ensure makes a filter as a starting daemon would. It returns what was done
	// (created, restored, unchanged) and whether the archive has a version of the filter.
	ensure(ctx context.Context, spec engine.Spec) (done string, archived bool, err error)
	writeback(ctx context.Context, name string, p archive.Progress) (client.CopyResult, error)
	restore(ctx context.Context, name, version string, p archive.Progress) (client.CopyResult, error)
	close() error
}

// archiveOf is server.OpenLink, but a missing archive is an error.
func archiveOf(cfg configs.Config, log *slog.Logger) (*backup.Link, error) {
	link, err := server.OpenLink(cfg, log)
	if link == nil && err == nil {
		err = errNoArchive
	}
	return link, err
}

// lookEvery is how often a command looks whether another one has ended.
const lookEvery = 200 * time.Millisecond

// accessStore opens the store in this process, or asks the daemon that has it open. Another command
// that has it is waited for, as far as the flags allow. want lists the filters for storeAccess.ensure.
func accessStore(cmd *cobra.Command, flags *commonFlags, cfg configs.Config, want []engine.Spec) (storeAccess, error) {
	token, err := flags.token.Read(cmd)
	if err != nil {
		return nil, err
	}
	if server := command.FlagOrEnv(cmd, "server", flags.server, "URIFILTER_URL"); server != "" {
		return newRemote(cmd, flags, server, token, "as --server or URIFILTER_URL says")
	}
	if cfg.Store == "redis" && answers(cmd.Context(), cfg.URL()) {
		return newRemote(cmd, flags, cfg.URL(), token, "it runs here")
	}
	h, err := openLocal(cmd.Context(), cfg, want, cmd.ErrOrStderr())
	for until, said := time.Now().Add(flags.wait), false; errors.As(err, new(*disk.InUseError)) && time.Now().Before(until) && !answers(cmd.Context(), cfg.URL()); {
		if !said {
			fmt.Fprintf(cmd.ErrOrStderr(), "waits up to %s, as no daemon answers at %s: %v\n", flags.wait, cfg.URL(), err)
			said = true
		}
		select {
		case <-cmd.Context().Done():
			return nil, cmd.Context().Err()
		case <-time.After(lookEvery):
		}
		h, err = openLocal(cmd.Context(), cfg, want, cmd.ErrOrStderr())
	}
	switch {
	case errors.As(err, new(*disk.InUseError)):
		return newRemote(cmd, flags, cfg.URL(), token, fmt.Sprintf("it has %s open", cfg.DataDir))
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission):
		if err := ping(cmd.Context(), cfg.URL()); answered(err) || silent(err) {
			return newRemote(cmd, flags, cfg.URL(), token, fmt.Sprintf("%s cannot be opened here", cfg.DataDir))
		}
		return nil, fmt.Errorf("%w\nhint: name the data directory (--data-dir, --config), or the daemon to ask (--server), or run as the daemon's user", err)
	}
	return h, err
}

// answers reports whether a daemon answers at the address.
func answers(ctx context.Context, address string) bool { return answered(ping(ctx, address)) }

// ping asks a daemon whether it is ready.
func ping(ctx context.Context, address string) error {
	c, err := client.New(address, client.WithTimeout(2*time.Second), client.WithPatience(0))
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Ready(ctx)
}

// answered reports for the error of a ping whether it is the answer of a daemon.
func answered(err error) bool {
	var answer *client.Error
	return err == nil || errors.As(err, &answer) && answer.Status == http.StatusServiceUnavailable
}

// silent reports whether err is that of a call that got no answer in time: of a daemon that loads its filters, for
// example, or of a host behind a firewall, from which it cannot be told.
func silent(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
