package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl"
	"github.com/cr-clawer/urifilter/daemon/internal/download/node"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
	"github.com/cr-clawer/urifilter/daemon/internal/download/verify"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

func newVerifyCommand() *cobra.Command {
	var dir, file, crawled string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that what is stored is what was downloaded",
		Long: `Read every body and compare it with the SHA-256 that was stored with it; with the
store on this machine, also check each page of its database. With --crawl the pages of
a crawl are compared with its index, the records of its WARC files with their digests,
and its database is checked. Nothing is changed, and the program whose data it is may
run meanwhile.

It exits with 0 when all is sound, and with 1 when there is damage. With --json each
damage is a line, and so is the summary, which is the last.`,
		Example: `  uridownloader verify --data-dir /var/lib/uridownloader
  uridownloader verify --config /etc/uridownloader/uridownloader.yaml --json
  uridownloader verify --crawl crawl-example.com`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := &verification{cmd: cmd, asJSON: asJSON, line: terminal.NewProgress(cmd.ErrOrStderr(), !asJSON)}
			if crawled != "" {
				return v.crawl(crawled)
			}
			cfg, err := readSettings(command.SettingsPath(file, configEnv, defaultPath))
			if cmd.Flags().Changed("data-dir") {
				cfg = settings.Default()
				cfg.DataDir, err = dir, nil
			}
			if err != nil {
				return err
			}
			return v.store(cfg)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "`file` of settings that names the store (env "+configEnv+")")
	f.StringVar(&dir, "data-dir", settings.Default().DataDir, "`folder` of a store on this machine")
	f.StringVar(&crawled, "crawl", "", "`folder` of a crawl")
	f.BoolVar(&asJSON, "json", false, "print a line of JSON for each damage, and one for the summary")
	cmd.MarkFlagsMutuallyExclusive("crawl", "data-dir")
	cmd.MarkFlagsMutuallyExclusive("crawl", "config")
	return cmd
}

// verification is one run of the command.
type verification struct {
	cmd    *cobra.Command
	asJSON bool
	counts verify.Counts
	line   *terminal.Progress
}

func (v *verification) store(cfg settings.Config) error {
	ctx := v.cmd.Context()
	if cfg.Store == node.StoreMongoDB {
		store, err := node.OpenMongoDB(ctx, cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer store.Close() //nolint:errcheck // nothing was written
		return v.end("the store", v.bodies(store))
	}
	dir := filepath.Join(cfg.DataDir, "store")
	store, err := sqlite.Inspect(dir)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing was written
	faults, err := store.Database(ctx)
	if err != nil {
		return err
	}
	for _, fault := range faults {
		v.counts.Damaged++
		v.found(verify.Damage{Fault: "database: " + fault})
	}
	return v.end(dir, v.bodies(store))
}

func (v *verification) bodies(from verify.Source) error {
	before := v.counts.Damaged
	show := func(c verify.Counts) {
		c.Damaged += before
		v.progress(c)
	}
	c, err := verify.Bodies(v.cmd.Context(), from, v.found, show)
	c.Damaged += before
	v.counts = c
	return err
}

func (v *verification) crawl(dir string) error {
	err := crawl.Verify(v.cmd.Context(), dir, func(uri, fault string) {
		v.counts.Damaged++
		v.found(verify.Damage{URI: uri, Fault: fault})
	}, func(bytes int64) {
		v.counts.Bodies++
		v.counts.Bytes += bytes
		v.progress(v.counts)
	})
	if errors.As(err, new(*crawl.NoneError)) {
		return fmt.Errorf("%s: there is no crawl in this folder%sname the folder that `uridownloader crawl` has as its --out", dir, command.HintMark)
	}
	return v.end(dir, err)
}

// progress shows how far it is, on a terminal.
func (v *verification) progress(c verify.Counts) {
	v.line.Show("%s bodies, %s, %s damaged", human.Count(c.Bodies), human.Bytes(c.Bytes), human.Count(c.Damaged))
}

func (v *verification) found(d verify.Damage) {
	v.line.Clear()
	d.URI = uri.Redact(d.URI)
	out := v.cmd.OutOrStdout()
	switch {
	case v.asJSON:
		_ = json.NewEncoder(out).Encode(struct {
			Event string `json:"event"`
			verify.Damage
		}{"damage", d})
	case d.Job != "" && d.Task == "":
		_, _ = fmt.Fprintf(out, "job %s: %s\n", d.Job, d.Fault)
	case d.Job != "":
		_, _ = fmt.Fprintf(out, "job %s, task %s, %q: %s\n", d.Job, d.Task, d.URI, d.Fault)
	case d.URI != "":
		_, _ = fmt.Fprintf(out, "%q: %s\n", d.URI, d.Fault)
	default:
		_, _ = fmt.Fprintln(out, d.Fault)
	}
}

// end says what was found; err is why it could not go on.
func (v *verification) end(what string, err error) error {
	v.line.Clear()
	out := v.cmd.OutOrStdout()
	switch {
	case err != nil && errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case v.asJSON:
		err = json.NewEncoder(out).Encode(struct {
			Event string `json:"event"`
			Sound bool   `json:"sound"`
			verify.Counts
		}{"summary", v.counts.Damaged == 0, v.counts})
	case v.counts.Damaged == 0:
		_, err = fmt.Fprintf(out, "%s: sound: %s bodies, %s\n", what, human.Count(v.counts.Bodies), human.Bytes(v.counts.Bytes))
	}
	if err == nil && v.counts.Damaged > 0 {
		err = fmt.Errorf("%s: %s faults; %s bodies with %s were read\nhint: put back what is damaged from a copy, or download it again",
			what, human.Count(v.counts.Damaged), human.Count(v.counts.Bodies), human.Bytes(v.counts.Bytes))
	}
	return err
}
