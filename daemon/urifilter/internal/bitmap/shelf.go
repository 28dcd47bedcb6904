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

	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// shelf is a run of verify or list, which use only the archive.
type shelf struct {
	ctx      context.Context
	archive  *archive.Archive
	flags    *commonFlags
	out, err io.Writer
}

// versionLine is one version as --json shows it.
type versionLine struct {
	Filter        string    `json:"filter"`
	Version       string    `json:"version"`
	Status        string    `json:"status"` // on, off
	Created       time.Time `json:"created"`
	Generation    uint64    `json:"generation"`
	ItemsEstimate uint64    `json:"items_estimate"`
	Capacity      uint64    `json:"capacity"`
	ErrorRate     float64   `json:"error_rate"`
	Bytes         int64     `json:"bytes"`
	Uploaded      int64     `json:"uploaded"`
	Owner         string    `json:"owner"`
}

func lineOf(v archive.Version) versionLine {
	status := "on"
	if !v.On {
		status = "off"
	}
	bound := v.Spec.Bound()
	return versionLine{Filter: v.Spec.Name, Version: v.ID, Status: status, Created: v.Created, Generation: v.Header.Generation, ItemsEstimate: v.Items,
		Capacity: bound.Items, ErrorRate: bound.ErrorRate, Bytes: v.Bytes, Uploaded: v.Uploaded, Owner: v.Owner}
}

func withArchive(cmd *cobra.Command, flags *commonFlags, do func(*shelf) error) error {
	cfg, err := flags.load(cmd)
	if err != nil {
		return err
	}
	link, err := archiveOf(cfg, nil)
	if err != nil {
		return err
	}
	a, err := link.Open(cmd.Context())
	if err != nil {
		return err
	}
	defer link.Close(context.WithoutCancel(cmd.Context()))
	return do(&shelf{ctx: cmd.Context(), archive: a, flags: flags, out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()})
}

// versionsOf returns the versions of the named filters, or of all if no name is given. A name that
// the archive lacks is an error, and a version that cannot be used; the others are returned.
func versionsOf(ctx context.Context, a *archive.Archive, names []string) ([]archive.Version, error) {
	if len(names) == 0 {
		return a.Versions(ctx, "")
	}
	var picked []archive.Version
	var faults []error
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		versions, err := a.Versions(ctx, name)
		if err == nil && len(versions) == 0 {
			err = fmt.Errorf("filter %s: %w\nhint: `urifilter bitmap update %s` writes one", name, archive.ErrNone, name)
		}
		picked, faults = append(picked, versions...), append(faults, err)
	}
	return picked, errors.Join(faults...)
}

func (s *shelf) list(names []string) error {
	versions, unusable := versionsOf(s.ctx, s.archive, names)
	if unusable != nil && len(versions) == 0 {
		return unusable
	}
	lines := []versionLine{}
	rows := [][]string{{"FILTER", "VERSION", "STATUS", "CREATED", "GENERATION", "ITEMS", "SIZE", "SENT", "BY"}}
	for _, v := range versions {
		l := lineOf(v)
		lines = append(lines, l)
		rows = append(rows, []string{l.Filter, l.Version, l.Status, l.Created.Local().Format(time.DateTime), fmt.Sprint(l.Generation),
			human.Count(int64(l.ItemsEstimate)), human.Bytes(l.Bytes), human.Bytes(l.Uploaded), l.Owner})
	}
	if s.flags.asJSON {
		return errors.Join(command.WriteJSON(s.out, map[string]any{"versions": lines}), unusable)
	}
	return errors.Join(human.Table(s.out, rows, map[int]bool{0: true, 1: true, 2: true, 3: true, 8: true}), unusable)
}

// checked is one version as verify --json shows it.
type checked struct {
	versionLine
	Damage string `json:"damage,omitempty"`
}

func (s *shelf) verify(names []string, all bool) error {
	versions, unusable := versionsOf(s.ctx, s.archive, names)
	if unusable != nil && len(versions) == 0 {
		return unusable
	}
	if !all {
		versions = backup.NewestOfEach(versions)
	}
	results := []checked{}
	damaged := []error{unusable}
	for _, v := range versions {
		show := newCopyProgress(s.err, v.ID, !s.flags.quiet)
		err := s.archive.Verify(s.ctx, v, show.stripe)
		show.stop()
		c := checked{versionLine: lineOf(v)}
		state := "sound"
		if err != nil {
			state, c.Damage = "DAMAGED", err.Error()
			damaged = append(damaged, err)
		}
		results = append(results, c)
		if !s.flags.asJSON {
			fmt.Fprintf(s.out, "%s: %s; %s, about %s items, written %s\n", v.ID, state, human.Bytes(v.Bytes), human.Count(int64(v.Items)), v.Created.Local().Format(time.DateTime))
		}
		if err != nil && !errors.As(err, new(*archive.DamageError)) {
			break // the archive is gone: nothing is known of the others
		}
	}
	if s.flags.asJSON {
		if err := command.WriteJSON(s.out, map[string]any{"versions": results}); err != nil {
			return err
		}
	}
	if len(versions) == 0 && unusable == nil {
		return fmt.Errorf("%w of any filter\nhint: `urifilter bitmap update` writes some", archive.ErrNone)
	}
	return errors.Join(damaged...)
}

// age writes how long ago t was, in the largest unit that fits.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return plural(int(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return plural(int(d/time.Hour), "hour")
	}
	return plural(int(d/(24*time.Hour)), "day")
}

func plural(n int, unit string) string {
	if n != 1 {
		unit += "s"
	}
	return strings.Join([]string{fmt.Sprint(n), unit}, " ")
}
