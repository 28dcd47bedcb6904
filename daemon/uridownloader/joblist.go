package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

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

func newJobList() *cobra.Command {
	var asJSON bool
	cmd := calling(&cobra.Command{
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

func newJobShow() *cobra.Command {
	var asJSON bool
	cmd := calling(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show a job, with its tasks by state",
		Example: "  uridownloader job show news",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var text json.RawMessage
		if err := m.JSON(cmd.Context(), http.MethodGet, pathOf(args[0]), "", nil, &text); err != nil {
			return err
		}
		return showJob(cmd.OutOrStdout(), text, asJSON)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
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
	return writeBlocked(w, j.Name, j.Blocked)
}

// writeBlocked says why tasks of a job wait, one reason per line.
func writeBlocked(w io.Writer, job string, why []string) error {
	for _, text := range why {
		if _, err := fmt.Fprintf(w, "job %s: %s\n", job, text); err != nil {
			return err
		}
	}
	return nil
}
