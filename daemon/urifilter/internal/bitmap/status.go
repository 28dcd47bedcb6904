package bitmap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// filterStatus is one filter as status --json shows it; null means that there is none.
type filterStatus struct {
	Filter  string             `json:"filter"`
	Store   *client.FilterInfo `json:"store"`
	Archive *versionLine       `json:"archive"` // the newest version that can be used
	// AgeSeconds is the age of that version.
	AgeSeconds float64 `json:"age_seconds,omitempty"`
	// Writer is the owner of the lease during a writeback.
	Writer string `json:"writer,omitempty"`
}

func newStatus() *cobra.Command {
	var flags commonFlags
	cmd := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show what store and archive have of each filter",
		Long: `Show for each filter what the store has (STORE, about ITEMS), the newest version in the
archive that can be used (VERSION, of about ARCHIVED items, AGE), and who is writing back
(WRITER). It exits with 1 when store or archive cannot be asked, or a version cannot be used.`,
		Example: "  urifilter bitmap status --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return showStatus(cmd, &flags, args)
		},
	}
	flags.register(cmd, true)
	return cmd
}

// showStatus asks both sides and shows their answers. It returns an error if one of them did not
// answer.
func showStatus(cmd *cobra.Command, flags *commonFlags, names []string) error {
	cfg, err := flags.load(cmd)
	if err != nil {
		return err
	}
	all := map[string]*filterStatus{}
	get := func(name string) *filterStatus {
		if all[name] == nil {
			all[name] = &filterStatus{Filter: name}
		}
		return all[name]
	}
	storeErr := statusOfStore(cmd, flags, cfg, get)
	archiveErr := statusOfArchive(cmd.Context(), cfg, get)
	var unknown []error
	for _, name := range names {
		if all[name] == nil {
			unknown = append(unknown, fmt.Errorf("filter %s: neither store nor archive has it", name))
		}
	}
	var picked []*filterStatus
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(names) == 0 || slices.Contains(names, name) {
			picked = append(picked, all[name])
		}
	}
	err = writeStatus(cmd, flags, picked, storeErr, archiveErr)
	if storeErr != nil {
		storeErr = fmt.Errorf("store: %w", storeErr)
	}
	return errors.Join(err, storeErr, archiveErr, errors.Join(unknown...))
}

func statusOfStore(cmd *cobra.Command, flags *commonFlags, cfg configs.Config, get func(string) *filterStatus) error {
	h, err := accessStore(cmd, flags, cfg, nil)
	if err != nil {
		return err
	}
	if !flags.quiet {
		fmt.Fprintln(cmd.ErrOrStderr(), h.describe())
	}
	list, err := h.filters(cmd.Context())
	for _, f := range list.Filters {
		get(f.Name).Store = &f
	}
	for _, q := range list.Quarantined {
		get(q.Name)
		err = errors.Join(err, inQuarantine(q))
	}
	return errors.Join(err, h.close())
}

func statusOfArchive(ctx context.Context, cfg configs.Config, get func(string) *filterStatus) error {
	link, err := archiveOf(cfg, nil)
	if err != nil {
		return err
	}
	a, err := link.Open(ctx)
	if err != nil {
		return err
	}
	defer link.Close(context.WithoutCancel(ctx))
	versions, unusable := a.Versions(ctx, "")
	for _, v := range backup.NewestOfEach(versions) {
		s, line := get(v.Spec.Name), lineOf(v)
		s.Archive, s.AgeSeconds = &line, time.Since(v.Created).Seconds()
		var lease *archive.LeaseError
		if err := a.Held(ctx, v.Spec.Name); errors.As(err, &lease) {
			s.Writer = lease.Owner
		} else if err != nil {
			return errors.Join(unusable, err)
		}
	}
	return unusable
}

func writeStatus(cmd *cobra.Command, flags *commonFlags, all []*filterStatus, storeErr, archiveErr error) error {
	if flags.asJSON {
		return command.WriteJSON(cmd.OutOrStdout(), map[string]any{"filters": all})
	}
	rows := [][]string{{"FILTER", "STORE", "ITEMS", "VERSION", "ARCHIVED", "AGE", "WRITER"}}
	for _, s := range all {
		row := []string{s.Filter, "-", "", "-", "", "", s.Writer}
		switch {
		case s.Store != nil:
			row[1], row[2] = "there", human.Count(int64(max(s.Store.ItemsEstimate, s.Store.Items)))
		case storeErr != nil:
			row[1] = "unknown"
		}
		switch {
		case s.Archive != nil:
			row[3], row[4] = s.Archive.Version, human.Count(int64(s.Archive.ItemsEstimate))
			row[5] = age(time.Duration(s.AgeSeconds * float64(time.Second)))
		case s.Store != nil && !s.Store.HasBitMap():
			row[3] = "no bit-map"
		case archiveErr != nil:
			row[3] = "unknown"
		}
		rows = append(rows, row)
	}
	return human.Table(cmd.OutOrStdout(), rows, map[int]bool{0: true, 1: true, 3: true, 6: true})
}
