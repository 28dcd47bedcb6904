// Package records holds the commands that list what a master has stored for a job: its tasks, the
// attempts to download them, and what came.
package records

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

// newList makes a command that lists records of a job, one per line, for people or as JSON. A
// filter is a query parameter with the usage of its flag.
func newList(cmd *cobra.Command, kind string, line func(record map[string]any) string, filter, usage string) *cobra.Command {
	var asJSON bool
	var limit int
	var wanted string
	calls.Command(cmd, func(cmd *cobra.Command, m *calls.Master, args []string) (err error) {
		q := url.Values{}
		if limit < 0 {
			return command.UsageError{Err: fmt.Errorf("--limit %d: want 1 or more, or 0 for all", limit)}
		}
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
		defer func() { err = cmp.Or(err, out.Flush()) }()
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

// NewTasks makes the command tasks.
func NewTasks() *cobra.Command {
	return newList(&cobra.Command{
		Use:   "tasks JOB",
		Short: "List the tasks of a job",
		Example: `  uridownloader tasks news --state failed
  uridownloader tasks news --json | jq -r .uri`,
	}, "tasks", func(r map[string]any) string {
		line := fmt.Sprintf("%-8s %3s  %s", text(r, "state"), text(r, "attempts"), text(r, "uri"))
		if reason := text(r, "failed_reason"); reason != "-" {
			line += "  (" + strings.Join(strings.Fields(reason), " ") + ")"
		}
		return line
	}, "state", "only tasks in this `state`: waiting, ready, running, done or failed")
}

// NewLogs makes the command logs.
func NewLogs() *cobra.Command {
	return newList(&cobra.Command{
		Use:     "logs JOB",
		Short:   "List the attempts of a job: when, what came, how long it took",
		Example: "  uridownloader logs news --limit 20",
	}, "logs", func(r map[string]any) string {
		spent, _ := r["spend_time_us"].(float64)
		return strings.TrimRight(fmt.Sprintf("%s  %3s  %7s  %s  %s", text(r, "added"), text(r, "status"),
			human.Duration((time.Duration(spent)*time.Microsecond).Round(time.Millisecond)), text(r, "uri"), strings.TrimPrefix(strings.Join(strings.Fields(text(r, "failed_reason")), " "), "-")), " ")
	}, "task", "only of the task with this `id`")
}

// NewData makes the command data.
func NewData() *cobra.Command {
	cmd := newList(&cobra.Command{
		Use:   "data JOB",
		Short: "List what was downloaded for a job",
		Example: `  uridownloader data news
  uridownloader data body news 0123456789abcdef0123456789abcdef > page.html`,
	}, "data", func(r map[string]any) string {
		size, _ := r["size"].(float64)
		return fmt.Sprintf("%s  %3s  %10s  %-24s  %s", text(r, "task"), text(r, "status"), human.Bytes(int64(size)), text(r, "content_type"), text(r, "uri"))
	}, "task", "only of the task with this `id`")
	cmd.AddCommand(newBody())
	return cmd
}

func newBody() *cobra.Command {
	return calls.Command(&cobra.Command{
		Use:     "body JOB TASK",
		Short:   "Print the body that was downloaded for a task",
		Example: "  uridownloader data body news 0123456789abcdef0123456789abcdef > page.html",
		Args:    cobra.ExactArgs(2),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		resp, err := m.Do(cmd.Context(), http.MethodGet, calls.JobPath(args[0])+"/data/"+url.PathEscape(args[1]), "", nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(cmd.OutOrStdout(), resp.Body)
		return err
	})
}
