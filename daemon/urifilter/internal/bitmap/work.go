package bitmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
)

// work is a run of init, update or restore.
type work struct {
	ctx      context.Context
	cfg      configs.Config
	store    storeAccess
	flags    *commonFlags
	out, err io.Writer
	skip     map[string]error // filters that cannot be copied, and why
}

// outcome is the result for one filter.
type outcome struct {
	Filter string             `json:"filter"`
	Done   string             `json:"done,omitempty"` // written, restored, created, unchanged, left to ...; "": failed
	Copy   *client.CopyResult `json:"copy,omitempty"`
	Error  string             `json:"error,omitempty"`
}

// withStore finds out which process has the store, says so, and lets do work through it.
func withStore(cmd *cobra.Command, flags *commonFlags, names []string, do func(*work) error) (err error) {
	cfg, err := flags.load(cmd)
	if err != nil {
		return err
	}
	var want []engine.Spec
	if cmd.Name() == "init" {
		if want, err = pickSpecs(server.Specs(cfg), names); err != nil {
			return err
		}
	}
	h, err := accessStore(cmd, flags, cfg, want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if !flags.quiet {
		fmt.Fprintln(cmd.ErrOrStderr(), h.describe())
	}
	return do(&work{ctx: cmd.Context(), cfg: cfg, store: h, flags: flags, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()})
}

// pickSpecs returns the specs with these names, or all if no name is given.
func pickSpecs(all []engine.Spec, names []string) ([]engine.Spec, error) {
	if len(names) == 0 {
		return all, nil
	}
	var picked []engine.Spec
	var known []string
	for _, s := range all {
		known = append(known, s.Name)
		if slices.Contains(names, s.Name) {
			picked = append(picked, s)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("filter %s: not in the settings\nhint: known filters: %s", name, strings.Join(known, ", "))
		}
	}
	return picked, nil
}

func (w *work) init(names []string) error {
	want, err := pickSpecs(server.Specs(w.cfg), names)
	if err != nil {
		return err
	}
	byName := map[string]engine.Spec{}
	var order []string
	for _, s := range want {
		byName[s.Name] = s
		order = append(order, s.Name)
	}
	return w.each(order, func(name string, p archive.Progress) (outcome, error) {
		done, archived, err := w.store.ensure(w.ctx, byName[name])
		if err != nil || archived || !byName[name].HasBitMap() {
			return outcome{Done: done}, err
		}
		c, err := w.writeback(name, p)
		if done == "unchanged" {
			done = "written"
		}
		return outcome{Done: done, Copy: &c}, err
	})
}

func (w *work) update(names []string) error {
	names, err := w.namesOr(names, "write back")
	if err != nil {
		return err
	}
	return w.each(names, func(name string, p archive.Progress) (outcome, error) {
		c, err := w.writeback(name, p)
		if w.flags.yield && leaseHeld(err) {
			return outcome{Done: "left to the daemon that is writing it back"}, nil
		}
		return outcome{Done: "written", Copy: &c}, err
	})
}

func (w *work) restore(names []string, version string) error {
	if len(names) == 0 {
		var err error
		if names, err = w.archivedNames(); err != nil {
			return err
		}
	}
	return w.each(names, func(name string, p archive.Progress) (outcome, error) {
		c, err := w.store.restore(w.ctx, name, version, p)
		return outcome{Done: "restored", Copy: &c}, err
	})
}

// archivedNames returns the filters to restore when none is named: those in the archive, or those
// of the daemon if this process has no archive in its settings.
func (w *work) archivedNames() ([]string, error) {
	link, err := server.OpenLink(w.cfg, nil)
	if err != nil {
		return nil, err
	}
	if link == nil {
		return w.namesOr(nil, "restore")
	}
	defer link.Close(w.ctx)
	all, err := link.Newest(w.ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range all {
		if a.Dropped {
			continue
		}
		names = append(names, a.Spec.Name)
	}
	if len(names) == 0 {
		return nil, errors.New("the archive has no version of any filter\nhint: `urifilter bitmap update` writes some")
	}
	return names, nil
}

func (w *work) namesOr(names []string, what string) ([]string, error) {
	if len(names) > 0 {
		return names, nil
	}
	all, err := w.store.filters(w.ctx)
	if err != nil {
		return nil, err
	}
	for _, f := range all.Filters {
		if f.HasBitMap() {
			names = append(names, f.Name)
		} else if !w.flags.quiet {
			what := "of the kind " + f.Kind
			if f.Layout != "" {
				what = "with layout: " + f.Layout
			}
			fmt.Fprintf(w.err, "%s: left out, filters %s have no bit-map\n", f.Name, what)
		}
	}
	w.skip = map[string]error{}
	for _, q := range all.Quarantined {
		names = append(names, q.Name)
		w.skip[q.Name] = inQuarantine(q)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the store has no filters with a bit-map: there is nothing to %s", what)
	}
	return names, nil
}

// inQuarantine explains why nothing is done with a filter.
func inQuarantine(q client.QuarantinedFilter) error {
	return fmt.Errorf("%s: skipped, it is in quarantine: %s", q.Name, q.Reason)
}

// unreachable reports whether the archive could not be reached.
func unreachable(err error) bool {
	var answer *client.Error
	return errors.Is(err, archive.ErrUnreachable) || errors.As(err, &answer) && answer.ErrorCode == problem.ArchiveUnavailable
}

// each processes one filter after the other, goes on after an error, and reports the outcomes. It
// does not ask an archive again that could not be reached.
func (w *work) each(names []string, do func(name string, p archive.Progress) (outcome, error)) error {
	outcomes := []outcome{}
	var failed []error
	var gone error // the archive
	for _, name := range names {
		show := newCopyProgress(w.err, name, !w.flags.quiet)
		var o outcome
		err := w.skip[name]
		if err == nil {
			if err = gone; err == nil {
				o, err = do(name, show.stripe)
			}
			if gone == nil && unreachable(err) {
				gone = errors.New("not tried: the archive cannot be reached")
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		show.stop()
		o.Filter = name
		if err != nil {
			o = outcome{Filter: name, Error: strings.TrimPrefix(err.Error(), name+": ")}
			failed = append(failed, err)
		}
		outcomes = append(outcomes, o)
		if !w.flags.asJSON && err == nil {
			fmt.Fprintln(w.out, o)
		}
		if w.ctx.Err() != nil {
			break
		}
	}
	if len(failed) == 0 && len(outcomes) < len(names) { // stopped between two filters
		failed = append(failed, context.Cause(w.ctx))
	}
	if w.flags.asJSON {
		if err := command.WriteJSON(w.out, map[string]any{"filters": outcomes}); err != nil {
			return err
		}
	}
	if len(failed) > 1 {
		return fmt.Errorf("%d of %d filters failed:\n%w", len(failed), len(names), errors.Join(failed...))
	}
	return errors.Join(failed...)
}

func (o outcome) String() string {
	if o.Copy == nil {
		return o.Filter + ": " + o.Done
	}
	took := time.Duration(o.Copy.TookSeconds * float64(time.Second)).Round(time.Millisecond)
	text := fmt.Sprintf("%s: %s, version %s, about %s items, %s", o.Filter, o.Done, o.Copy.Version, human.Count(int64(o.Copy.ItemsEstimate)), human.Bytes(o.Copy.Bytes))
	if o.Done != "restored" {
		text += ", " + human.Bytes(o.Copy.Uploaded) + " sent"
	}
	return text + fmt.Sprintf(", in %s", took)
}
