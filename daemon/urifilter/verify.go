package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/settings"
)

func newVerifyCommand() *cobra.Command {
	var dir, file string
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check a data directory that no daemon uses",
		Long: `Check every file of a data directory: the descriptions, the checksums of the
bit-maps and of the other filters' entries, and each record of the journals. Nothing
is changed.

With --repair a damaged journal is replaced by what is whole of it, so that the
daemon starts; the items of the damaged records are new again. A damaged bit-map
cannot be repaired from itself: put back the filter's folder from a copy, or move
it away to start that filter empty.

It exits with 0 when all is sound, and with 1 when there is damage.`,
		Example: `  urifilter verify --data-dir /var/lib/urifilter
  urifilter verify --data-dir /var/lib/urifilter --repair`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("data-dir") {
				cfg, err := configs.Load(settings.Path(file), os.Environ())
				if err != nil {
					return err
				}
				dir = cfg.DataDir
			}
			return verify(cmd, dir, repair)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "`file` of settings that names the data directory")
	f.StringVar(&dir, "data-dir", configs.Default().DataDir, "`folder` to check")
	f.BoolVar(&repair, "repair", false, "keep the intact part of damaged journals")
	return cmd
}

func verify(cmd *cobra.Command, dir string, repair bool) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	filters, damaged := 0, 0
	err := embedded.Verify(dir, repair, func(f embedded.Finding) {
		defer out.Flush() // its error is that of the last one, too
		if f.Strange {
			fmt.Fprintf(out, "%s: not a filter's folder; the daemon leaves it alone\n", f.Dir)
			return
		}
		filters++
		state := "sound"
		switch {
		case f.Repaired:
			state = "REPAIRED"
		case len(f.Damage) > 0:
			state = "DAMAGED"
			damaged++
		}
		about, checked := "", "nothing checked"
		if f.Kind.Estimates {
			about = "about "
		}
		if f.Kind.Checked != "" {
			checked = fmt.Sprintf(f.Kind.Checked, f.Blocks)
		}
		fmt.Fprintf(out, "%s: %s; %s%d items; %s; journal: %d segments, %d entries", f.Spec.Name, state, about, f.Items, checked, f.Segments, f.Keys)
		if f.TornBytes > 0 {
			fmt.Fprintf(out, ", %d bytes that a crash left unfinished (normal)", f.TornBytes)
		}
		fmt.Fprintln(out)
		for _, damage := range f.Damage {
			fmt.Fprintf(out, "  %v\n", damage)
		}
	})
	switch {
	case errors.As(err, new(*disk.InUseError)):
		return fmt.Errorf("%w\nhint: stop the daemon first (systemctl stop urifilter), or check a copy of the folder", err)
	case err != nil:
		return err
	case damaged > 0:
		return fmt.Errorf("%s: %d of %d filters are damaged\nhint: --repair keeps what is whole of a journal; a bit-map is put back from a copy, or its folder moved away", dir, damaged, filters)
	}
	fmt.Fprintf(out, "%s: %d filters, no damage left\n", dir, filters)
	return out.Flush()
}
