// Package job holds the commands job ..., with which people give jobs to a master, look at them,
// pause and drop them. Package jobfile reads the files of jobs, and package calls calls the master.
package job

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
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
