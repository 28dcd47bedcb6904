// Package job holds the commands job ..., with which people give jobs to a master, look at them,
// pause and drop them. Package jobfile reads the files of jobs, and package calls calls the master.
package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

// NewCommand makes the command job.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Add, look at, pause and drop jobs",
		Long: `Add, look at, pause and drop jobs. A job is a file such as

  name: news
  priority: 3              # 0 to 9, higher first
  filter: uri_download     # skips what other jobs with this filter have downloaded; optional
  uris: uris.txt           # a file beside this one, a list, or a URL
  setting: {max_download_times: 3, timeout: 30s, delay: 1s, concurrency: 2}
  generate: {code: generate.star, every: 1h}   # makes URIs on a schedule
  parse: {code: parse.star}                    # takes apart each page that was stored

docs/downloader.md has every key, docs/jobcode.md what scripts can do.`,
		Example:               "  uridownloader job add news.yaml\n  uridownloader job uris news more.txt\n  uridownloader job show news",
		DisableFlagsInUseLine: true,
	}
	command.Parent(cmd)
	cmd.AddCommand(newAdd(), newChange(), newCheck(), newList(), newShow(), newURIs(), newGenerate(), newRetry(), newDrop(),
		newTurn("pause", "Hand out no task of a job until it is resumed"), newTurn("resume", "Hand out the tasks of a job again"))
	return cmd
}

// job is a job as commands show it.
type job struct {
	Name     string         `json:"name"`
	Status   string         `json:"status"`
	Priority int            `json:"priority"`
	Filter   string         `json:"filter"`
	Version  int            `json:"version"`
	Setting  map[string]any `json:"setting"`
	Tasks    map[string]int `json:"tasks"`
	Blocked  []string       `json:"blocked"`
	Added    *time.Time     `json:"added"`
}

func (j job) row() []string {
	row := []string{j.Name, j.Status, strconv.Itoa(j.Priority), "v" + strconv.Itoa(j.Version)}
	for _, state := range download.States() {
		row = append(row, human.Count(int64(j.Tasks[string(state)])))
	}
	return row
}

func jobHeader() []string {
	row := []string{"JOB", "STATUS", "PRIORITY", "VERSION"}
	for _, state := range download.States() {
		row = append(row, strings.ToUpper(string(state)))
	}
	return row
}

func showJob(w io.Writer, text json.RawMessage, asJSON bool) error {
	if asJSON {
		_, err := fmt.Fprintf(w, "%s\n", text)
		return err
	}
	var j job
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	if err := human.Table(w, [][]string{jobHeader(), j.row()}, map[int]bool{0: true, 1: true}); err != nil {
		return err
	}
	return WriteBlocked(w, j.Name, j.Blocked)
}

// WriteBlocked says why tasks of a job wait, one reason per line.
func WriteBlocked(w io.Writer, job string, why []string) error {
	for _, text := range why {
		if _, err := fmt.Fprintf(w, "job %s: %s\n", job, text); err != nil {
			return err
		}
	}
	return nil
}

func newAdd() *cobra.Command {
	var skip bool
	return skipInvalid(calls.Command(&cobra.Command{
		Use:     "add FILE",
		Short:   "Check a job and store it; its tasks are handed out at once",
		Example: "  uridownloader job add news.yaml",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		return send(cmd, m, args[0], skip, func(string) (method, path string) { return http.MethodPost, "/api/v1/jobs" })
	}), &skip)
}

func newChange() *cobra.Command {
	var skip bool
	return skipInvalid(calls.Command(&cobra.Command{
		Use:     "change FILE",
		Short:   "Give a job the settings in a file, as a new version",
		Example: "  uridownloader job change news.yaml",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		return send(cmd, m, args[0], skip, func(name string) (method, path string) { return http.MethodPut, calls.JobPath(name) })
	}), &skip)
}

func newShow() *cobra.Command {
	var asJSON bool
	cmd := calls.Command(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show a job, with its tasks by state",
		Example: "  uridownloader job show news",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var text json.RawMessage
		if err := m.JSON(cmd.Context(), http.MethodGet, calls.JobPath(args[0]), "", nil, &text); err != nil {
			return err
		}
		return showJob(cmd.OutOrStdout(), text, asJSON)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

func newList() *cobra.Command {
	var asJSON bool
	cmd := calls.Command(&cobra.Command{
		Use:     "list",
		Short:   "List all jobs, with their tasks by state",
		Example: "  uridownloader job list",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, m *calls.Master, _ []string) error {
		var answer struct{ Jobs []json.RawMessage }
		if err := m.JSON(cmd.Context(), http.MethodGet, "/api/v1/jobs", "", nil, &answer); err != nil {
			return err
		}
		rows := [][]string{jobHeader()}
		for _, text := range answer.Jobs {
			if asJSON {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text); err != nil {
					return err
				}
				continue
			}
			var j job
			if err := json.Unmarshal(text, &j); err != nil {
				return err
			}
			rows = append(rows, j.row())
		}
		if asJSON {
			return nil
		}
		return human.Table(cmd.OutOrStdout(), rows, map[int]bool{0: true, 1: true})
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one job a line")
	return cmd
}

func newTurn(verb, short string) *cobra.Command {
	return calls.Command(&cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: "  uridownloader job " + verb + " news",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var text json.RawMessage
		if err := m.JSON(cmd.Context(), http.MethodPost, calls.JobPath(args[0])+"/"+verb, "", nil, &text); err != nil {
			return err
		}
		return showJob(cmd.OutOrStdout(), text, false)
	})
}

func newDrop() *cobra.Command {
	var confirm string
	cmd := calls.Command(&cobra.Command{
		Use:     "drop NAME --confirm NAME",
		Short:   "Remove a job with its tasks, data and logs",
		Example: "  uridownloader job drop news --confirm news",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		if confirm != args[0] {
			return command.UsageError{Err: errors.New("its tasks, data and logs are removed with it: want --confirm " + args[0])}
		}
		if err := m.JSON(context.WithoutCancel(cmd.Context()), http.MethodDelete, calls.JobPath(args[0])+"?confirm="+url.QueryEscape(confirm), "", nil, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "job %s is dropped\n", args[0])
		return err
	})
	cmd.Flags().StringVar(&confirm, "confirm", "", "repeat the `name` of the job to confirm")
	return calls.Patient(cmd)
}

func newGenerate() *cobra.Command {
	return calls.Command(&cobra.Command{
		Use:   "generate NAME",
		Short: "Run the script generate of a job now, beside its schedule",
		Long: `Run the script generate of a job now, beside its schedule. The run is a task of the job, as those of the schedule
are; run.time is the time of this call. It needs a token with the scope submit.`,
		Example: "  uridownloader job generate news\n  uridownloader tasks news        # whether it has ended\n  uridownloader logs news         # what failed, and why",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var answer struct {
			Run, Task, Status string
			Added             bool
		}
		if err := m.JSON(cmd.Context(), http.MethodPost, calls.JobPath(args[0])+"/generate", "", nil, &answer); err != nil {
			return err
		}
		does := "runs next"
		switch {
		case !answer.Added:
			does = "is there already"
		case answer.Status == "off":
			does = "waits until `uridownloader job resume " + args[0] + "`"
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s, task %s\n", answer.Run, does, answer.Task)
		return err
	})
}

func newRetry() *cobra.Command {
	var reasons, hosts []string
	var asJSON bool
	cmd := calls.Command(&cobra.Command{
		Use:   "retry NAME",
		Short: "Try tasks of a job again that have failed",
		Long: `Try tasks of a job again that have failed, as if they had never been tried: all of them, or those whose
last attempt failed for one of some reasons, or that are of one of some hosts. A reason is the word with which it
begins in the output of tasks, such as timeout. The failed tasks that are left are counted by their reason. It needs a token with the scope submit.`,
		Example: "  uridownloader job retry news\n  uridownloader job retry news --reason connect --reason timeout --host www.example.com",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var answer struct {
			Retried int            `json:"retried"`
			Left    map[string]int `json:"left"`
			Status  string         `json:"status"`
		}
		path := calls.JobPath(args[0]) + "/retry"
		if query := (url.Values{"reason": reasons, "host": hosts}).Encode(); query != "" {
			path += "?" + query
		}
		if err := m.JSON(cmd.Context(), http.MethodPost, path, "", nil, &answer); err != nil {
			return err
		}
		if asJSON {
			return command.WriteJSON(cmd.OutOrStdout(), answer)
		}
		var left []string
		for _, reason := range slices.SortedFunc(maps.Keys(answer.Left), func(a, b string) int {
			return cmp.Or(cmp.Compare(answer.Left[b], answer.Left[a]), strings.Compare(a, b))
		}) {
			left = append(left, human.Count(int64(answer.Left[reason]))+" "+reason)
		}
		note := ""
		if len(left) > 0 {
			note = "; other failed tasks, by reason: " + terminal.Text(strings.Join(left, ", "))
		}
		if answer.Status == "off" {
			note += "; the job is off: `uridownloader job resume " + args[0] + "`"
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s tasks wait again%s\n", human.Count(int64(answer.Retried)), note)
		return err
	})
	cmd.Flags().StringArrayVar(&reasons, "reason", nil, "only those that failed for this `reason`; may be given several times")
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "only those of this `host`; may be given several times")
	command.JSONFlag(cmd, &asJSON)
	return calls.Patient(cmd)
}
