package job

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/jobfile"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
)

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "Check a job, and list all errors; calls no server",
		Example: "  uridownloader job check news.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, _, source, err := readJob(args[0])
			if err != nil {
				return err
			}
			if source.File != "" {
				if err := checkURIs(cmd.Context(), args[0], source); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: good\n", args[0]); err != nil {
				return err
			}
			for _, code := range source.Codes {
				if script.LanguageOf(code.File) == script.Python {
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: is compiled by the master, when the job is added\n", code.File); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

// checkURIs describes faults in the file of URIs beside a job: 20 faulty lines, and how many more there are.
func checkURIs(ctx context.Context, job string, source jobfile.Source) error {
	list, err := openURIs(ctx, job, source)
	if err != nil {
		return err
	}
	defer list.Close()
	var faults []error
	wrong := 0
	lines := bufio.NewScanner(list)
	lines.Buffer(nil, 6*download.MaxURI) // the same as in the master
	line := 1
	for ; lines.Scan(); line++ {
		text := lines.Text()
		if line == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		if _, err := download.TaskOf(text); err != nil {
			if wrong++; wrong <= 20 {
				faults = append(faults, fmt.Errorf("%s:%d: %w", source.File, line, err))
			}
		}
	}
	if wrong > len(faults) {
		faults = append(faults, fmt.Errorf("%s: and %d more lines that are no URIs", source.File, wrong-len(faults)))
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Errorf("%s:%d: %w", source.File, line, err))
	}
	return errors.Join(faults...)
}
