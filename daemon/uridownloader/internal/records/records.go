// Package records holds the commands that list what a master has stored for a job: its tasks, the
// attempts to download them, and what came.
package records

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

// newList makes a command that lists records of a job, one per line, for people or as JSON. A
// filter is a query parameter with the usage of its flag.
func newList(cmd *cobra.Command, kind string, line func(record map[string]any) string, filter, usage string) *cobra.Command {
	var asJSON bool
	var limit int
	var wanted string
	calls.Command(cmd, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		q := url.Values{}
		if limit > 0 {
			q.Set("limit", strconv.Itoa(limit))
		}
		if wanted != "" {
			q.Set(filter, wanted)
		}
		resp, err := m.Do(cmd.Context(), http.MethodGet, calls.JobPath(args[0])+"/"+kind+"?"+q.Encode(), "", nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if asJSON {
			_, err := io.Copy(cmd.OutOrStdout(), resp.Body)
			return err
		}
		out := bufio.NewWriter(cmd.OutOrStdout())
		defer out.Flush()
		for dec := json.NewDecoder(resp.Body); ; {
			var record map[string]any
			if err := dec.Decode(&record); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(out, terminal.Text(line(record))); err != nil {
				return err
			}
		}
	})
	cmd.Args = cobra.ExactArgs(1)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one record a line")
	cmd.Flags().IntVar(&limit, "limit", 0, "print this many `records` at most; 0: all")
	cmd.Flags().StringVar(&wanted, filter, "", usage)
	return cmd
}

func text(record map[string]any, key string) string {
	switch v := record[key].(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return "-"
}
