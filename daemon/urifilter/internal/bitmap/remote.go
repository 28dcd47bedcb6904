package bitmap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// remote is a daemon.
type remote struct {
	daemon *client.Client
	why    string
}

// newRemote waits for a daemon that does not answer yet, as far as the flags allow.
func newRemote(cmd *cobra.Command, flags *commonFlags, server, token, why string) (storeAccess, error) {
	daemon, err := client.New(server, client.WithToken(token))
	if err != nil {
		return nil, command.UsageError{Err: err}
	}
	for until, said := time.Now().Add(flags.wait), false; silent(ping(cmd.Context(), server)) && time.Now().Before(until); said = true {
		if !said {
			fmt.Fprintf(cmd.ErrOrStderr(), "waits up to %s: the daemon at %s does not answer yet; it may still load its filters\n", flags.wait, daemon.URL())
		}
	}
	if err := cmd.Context().Err(); err != nil {
		daemon.Close()
		return nil, err
	}
	return &remote{daemon, why}, nil
}

func (r *remote) describe() string { return "asking the daemon at " + r.daemon.URL() + ": " + r.why }

func (r *remote) filters(ctx context.Context) (client.FilterList, error) {
	list, err := r.daemon.AllFilters(ctx)
	return list, r.explain(err)
}

func (r *remote) ensure(ctx context.Context, spec engine.Spec) (done string, archived bool, err error) {
	info, err := r.daemon.GetFilter(ctx, spec.Name)
	var answer *client.Error
	switch {
	case err == nil:
		return "unchanged", info.LastWriteback != nil, nil
	case !errors.As(err, &answer) || answer.ErrorCode != problem.UnknownFilter:
		return "", false, r.explain(err)
	}
	info, _, err = r.daemon.CreateFilter(ctx, spec.Name, askedSpec(spec))
	switch {
	case err != nil:
		return "", false, r.explain(err)
	case info.LastWriteback != nil:
		return "restored", true, nil
	}
	return "created", false, nil
}

// askedSpec converts a spec to the form in which a daemon is asked for the filter.
func askedSpec(spec engine.Spec) client.FilterSpec {
	asked := client.FilterSpec{ID: spec.ID, Kind: spec.Kind, More: map[string]any{}}
	for _, m := range spec.Members() {
		if m.Value != nil {
			asked.More[m.Key] = m.Value
		}
	}
	return asked
}

func (r *remote) writeback(ctx context.Context, name string, _ archive.Progress) (client.CopyResult, error) {
	done, err := r.daemon.Writeback(ctx, name)
	return done, r.explain(err)
}

func (r *remote) restore(ctx context.Context, name, version string, _ archive.Progress) (client.CopyResult, error) {
	done, err := r.daemon.Restore(ctx, name, version)
	return done, r.explain(err)
}

// explain adds what to do if the daemon's answer does not say it.
func (r *remote) explain(err error) error {
	var answer *client.Error
	switch {
	case silent(err):
		return fmt.Errorf("%w\nhint: it may still load its filters, as its log says (journalctl -u urifilter); --wait waits longer for that", err)
	case !errors.As(err, &answer):
		return err
	}
	switch answer.ErrorCode {
	case problem.NoArchive:
		return fmt.Errorf("%w\nhint: the daemon reads its settings when it starts; restart it with mongodb.uri in them", err)
	case problem.ArchiveUnavailable:
		return fmt.Errorf("%w\nhint: the daemon's log says why (journalctl -u urifilter)", err)
	case problem.LeaseHeld:
		return fmt.Errorf("%w\nhint: try again when that is done; `urifilter bitmap status` shows it", err)
	case problem.UnknownVersion:
		return fmt.Errorf("%w\nhint: `urifilter bitmap list` shows the versions", err)
	}
	return err
}

func (r *remote) close() error {
	r.daemon.Close()
	return nil
}
