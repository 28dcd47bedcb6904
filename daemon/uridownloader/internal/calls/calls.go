// Package calls is for commands that call a master: the flags that name it, the token that it
// requires, and the next step after an error.
package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

const defaultServer = "http://127.0.0.1:8001"

// Flags are the flags of commands that call a master.
type Flags struct {
	server  string
	token   command.Credential
	timeout time.Duration
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.server, "server", "s", defaultServer, "`URL` of the master; without a scheme it is http (env URIDOWNLOADER_URL)")
	f.token.Register(cmd, "URIDOWNLOADER")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "give up a call when the master has been silent for this time; lists may last longer")
}

// Master is the master that is called. shown is its address without user and password.
type Master struct {
	base, shown, token string
	timeout            time.Duration // how long it may be silent
	client             *http.Client
}

// Dial reads the flags, and calls nobody. Invalid flags are a [command.UsageError].
func (f *Flags) Dial(cmd *cobra.Command) (*Master, error) {
	token, err := f.token.Read(cmd)
	if err != nil {
		return nil, err
	}
	m := &Master{base: command.FlagOrEnv(cmd, "server", f.server, "URIDOWNLOADER_URL"), token: token, timeout: f.timeout, client: http.DefaultClient}
	if m.timeout <= 0 {
		return nil, command.UsageError{Err: fmt.Errorf("--timeout %s: want more than 0", m.timeout)}
	}
	if !strings.Contains(m.base, "://") {
		m.base = "http://" + m.base
	}
	m.base = strings.TrimSuffix(m.base, "/")
	m.shown = uri.Redact(m.base)
	u, err := url.Parse(m.base)
	if err != nil && strings.Contains(m.base, "@") { // where its password ends is not known
		return nil, command.UsageError{Err: errors.New("--server: want a URL such as http://USER:PASSWORD@HOST:PORT, with special characters percent-encoded")}
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, command.UsageError{Err: fmt.Errorf("--server %q: want a URL such as %s", m.shown, defaultServer)}
	}
	return m, nil
}

// Error is a master's answer that describes a problem.
type Error struct {
	problemdetail.Detail
	server string
}

func (e *Error) Error() string {
	text := e.Detail.Detail
	if text == "" {
		text = e.Title
	}
	if len(e.Known) > 0 {
		text += "; known: " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("%s: %d %s: %s", e.server, e.Status, e.ErrorCode, text)
}

// Hint returns the next step after an error of a call, "" if none is known.
func Hint(err error) string {
	var answer *Error
	var dns *net.DNSError
	switch {
	case errors.As(err, &answer):
		switch answer.Status {
		case http.StatusUnauthorized:
			return "give a token with --token-file or URIDOWNLOADER_TOKEN"
		case http.StatusForbidden:
			return "use a token that has this scope (--token-file or URIDOWNLOADER_TOKEN)"
		}
		switch answer.ErrorCode {
		case "unknown_path":
			return "is that the address of a uridownloader master? (--server or URIDOWNLOADER_URL)"
		case "job_exists":
			return "`uridownloader job change FILE` makes a new version of it, and `uridownloader job uris` adds URIs to it"
		case "unknown_job":
			return "`uridownloader job list` lists them"
		case "invalid_uri":
			return "correct it and send the whole list again with `uridownloader job uris`, which does no harm; --skip-invalid leaves out what is no URI"
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is it running? start it with `uridownloader serve`, or name it with --server or URIDOWNLOADER_URL"
	case errors.As(err, &dns):
		return "check the name of the master's host (--server or URIDOWNLOADER_URL)"
	}
	return ""
}

// Do calls the master, with a body of a type unless the body is nil. The caller must close the
// answer's body. Any status but success is an error: an *Error if it comes from the master. A master
// that is silent for too long is given up, also within the answer's body.
func (m *Master) Do(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	ctx, quiet := m.listen(ctx)
	resp, err := m.do(ctx, quiet, method, path, contentType, body)
	if err != nil {
		return nil, quiet.end(err)
	}
	quiet.timer.Stop()
	resp.Body = &answerBody{resp.Body, quiet}
	return resp, nil
}

func (m *Master) do(ctx context.Context, quiet *silence, method, path, contentType string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.base+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", contentType)
		req.Body = &callBody{req.Body, quiet}
	}
	if m.token != "" {
		req.Header.Set("Authorization", "Bearer "+m.token)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%s: %w", m.shown, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m.shown, resp.Status, err)
	}
	answer := &Error{server: m.shown}
	if json.Unmarshal(text, &answer.Detail) != nil || answer.ErrorCode == "" {
		return nil, fmt.Errorf("%s: %s\nhint: is that the address of a uridownloader master? (--server or URIDOWNLOADER_URL)", m.shown, resp.Status)
	}
	return nil, answer
}

// JSON calls the master, and decodes the answer into into unless that is nil.
func (m *Master) JSON(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	var from io.Reader
	if body != nil {
		from = bytes.NewReader(body)
	}
	resp, err := m.Do(ctx, method, path, contentType, from)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("%s: answer of %s %s: %w", m.shown, method, path, err)
	}
	return nil
}

// Command makes a command that calls a master. A first argument that its Use calls NAME or JOB is the
// name of a job, and is completed.
func Command(cmd *cobra.Command, do func(cmd *cobra.Command, m *Master, args []string) error) *cobra.Command {
	var flags Flags
	flags.Register(cmd)
	if strings.Contains(cmd.Use, " NAME") || strings.Contains(cmd.Use, " JOB") {
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

// Patient gives a command, whose call the master answers once all is done, an hour: millions of tasks take minutes.
func Patient(cmd *cobra.Command) *cobra.Command {
	flag := cmd.Flags().Lookup("timeout")
	flag.DefValue = time.Hour.String()
	if err := flag.Value.Set(flag.DefValue); err != nil {
		panic(err) // it is a duration
	}
	return cmd
}

// JobPath is the path of a job in the API of masters.
func JobPath(name string) string { return "/api/v1/jobs/" + url.PathEscape(name) }

// completionWait is how long the completion of a name waits for the master.
const completionWait = 2 * time.Second

// CompleteJob offers the names of the master's jobs, if the master answers quickly; further
// arguments are files.
func (f *Flags) CompleteJob(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	m, err := f.Dial(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
	defer cancel()
	var answer struct {
		Jobs []struct{ Name, Status string }
	}
	if err := m.JSON(ctx, http.MethodGet, "/api/v1/jobs", "", nil, &answer); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, j := range answer.Jobs {
		names = append(names, cobra.CompletionWithDesc(j.Name, j.Status))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
