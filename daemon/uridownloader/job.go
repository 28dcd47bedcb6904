package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/jobfile"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newJobCommand() *cobra.Command {
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
	cmd.AddCommand(newJobAdd(), newJobChange(), newJobCheck(), newJobList(), newJobShow(), newJobURIs(), newJobGenerate(), newJobDrop(),
		newJobTurn("pause", "Hand out no task of a job until it is resumed"), newJobTurn("resume", "Hand out the tasks of a job again"))
	return cmd
}

// calling makes a command that calls a master, and whose first argument is a job or a file.
func calling(cmd *cobra.Command, do func(cmd *cobra.Command, m *calls.Master, args []string) error) *cobra.Command {
	var flags calls.Flags
	flags.Register(cmd)
	if strings.Contains(cmd.Use, "NAME") {
		cmd.ValidArgsFunction = flags.CompleteJob
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := flags.Dial(cmd)
		if err != nil {
			return err
		}
		return do(cmd, m, args)
	}
	return cmd
}

// readJob reads a job file and checks it here, so that faults are reported with the user's own path.
func readJob(file string) (text []byte, j download.Job, source jobfile.Source, err error) {
	if text, err = os.ReadFile(file); err != nil {
		return nil, j, source, err
	}
	if j, source, err = jobfile.Parse(file, text); err != nil {
		return nil, j, source, err
	}
	for _, code := range source.Codes {
		if text, err = withCode(file, text, code); err != nil {
			return nil, j, source, err
		}
	}
	if source.File == "" && source.URL == "" {
		return text, j, source, nil
	}
	text, err = jobfile.WithoutURIs(file, text)
	return text, j, source, err
}

// withCode inserts the code of a script into a job that names a file beside it.
func withCode(file string, text []byte, code jobfile.CodeFile) ([]byte, error) {
	path := code.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", file, code.Key, err)
	}
	defer f.Close()
	read, err := io.ReadAll(io.LimitReader(f, script.MaxText+1)) // one byte more is too long
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", file, code.Key, err)
	}
	return jobfile.WithCode(file, text, code, string(read))
}

func newJobAdd() *cobra.Command {
	var skip bool
	return skipInvalid(calling(&cobra.Command{
		Use:     "add FILE",
		Short:   "Check a job and store it; its tasks are handed out at once",
		Example: "  uridownloader job add news.yaml",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		return send(cmd, m, args[0], skip, func(string) (method, path string) { return http.MethodPost, "/api/v1/jobs" })
	}), &skip)
}

func newJobChange() *cobra.Command {
	var skip bool
	return skipInvalid(calling(&cobra.Command{
		Use:     "change FILE",
		Short:   "Give a job the settings in a file, as a new version",
		Example: "  uridownloader job change news.yaml",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		return send(cmd, m, args[0], skip, func(name string) (method, path string) { return http.MethodPut, pathOf(name) })
	}), &skip)
}

func pathOf(name string) string { return "/api/v1/jobs/" + url.PathEscape(name) }

func send(cmd *cobra.Command, m *calls.Master, file string, skip bool, where func(name string) (method, path string)) error {
	text, j, source, err := readJob(file)
	if err != nil {
		return err
	}
	uris, err := openURIs(cmd.Context(), file, source) // before the job is stored
	if err != nil {
		return err
	}
	if uris != nil {
		defer uris.Close()
	}
	method, path := where(j.Name)
	var answer struct {
		job
		URIs added `json:"uris"`
	}
	if err := m.JSON(cmd.Context(), method, path+"?file="+url.QueryEscape(filepath.Base(file)), "application/yaml", text, &answer); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "job %s: version %d is stored\n", answer.Name, answer.Version); err != nil {
		return err
	}
	if uris != nil {
		return sendURIs(cmd, m, answer.Name, uris, skip)
	}
	return answer.URIs.print(cmd.OutOrStdout())
}

func newJobCheck() *cobra.Command {
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

func newJobTurn(verb, short string) *cobra.Command {
	return calling(&cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: "  uridownloader job " + verb + " news",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var text json.RawMessage
		if err := m.JSON(cmd.Context(), http.MethodPost, pathOf(args[0])+"/"+verb, "", nil, &text); err != nil {
			return err
		}
		return showJob(cmd.OutOrStdout(), text, false)
	})
}

func newJobGenerate() *cobra.Command {
	return calling(&cobra.Command{
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
		if err := m.JSON(cmd.Context(), http.MethodPost, pathOf(args[0])+"/generate", "", nil, &answer); err != nil {
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

func newJobDrop() *cobra.Command {
	var confirm string
	cmd := calling(&cobra.Command{
		Use:     "drop NAME --confirm NAME",
		Short:   "Remove a job with its tasks, data and logs",
		Example: "  uridownloader job drop news --confirm news",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		if confirm != args[0] {
			return command.UsageError{Err: errors.New("its tasks, data and logs are removed with it: want --confirm " + args[0])}
		}
		if err := m.JSON(context.WithoutCancel(cmd.Context()), http.MethodDelete, pathOf(args[0])+"?confirm="+url.QueryEscape(confirm), "", nil, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "job %s is dropped\n", args[0])
		return err
	})
	cmd.Flags().StringVar(&confirm, "confirm", "", "repeat the `name` of the job to confirm")
	return cmd
}
