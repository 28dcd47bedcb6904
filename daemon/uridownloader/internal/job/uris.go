package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/download/jobfile"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newURIs() *cobra.Command {
	var skip bool
	return skipInvalid(calls.Command(&cobra.Command{
		Use:   "uris NAME [FILE | URL]",
		Short: "Add URIs to a job, one a line, of a file, a URL or standard input",
		Example: `  uridownloader job uris news more.txt
  uridownloader job uris news https://example.com/sitemap.txt
  urifilter filter --filter uri_generator links.txt | uridownloader job uris news`,
		Args: cobra.RangeArgs(1, 2),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		if len(args) == 1 || args[1] == "-" {
			return sendURIs(cmd, m, args[0], cmd.InOrStdin(), skip)
		}
		list, err := openList(cmd.Context(), args[1])
		if err != nil {
			return err
		}
		defer list.Close()
		return sendURIs(cmd, m, args[0], list, skip)
	}), &skip)
}

// added counts what became of URIs.
type added struct{ Total, Added, Seen, Known, Invalid int }

func (a added) print(w io.Writer) error {
	text := fmt.Sprintf("%s URIs: %s added, %s seen by its filter, %s there before",
		human.Count(int64(a.Total)), human.Count(int64(a.Added)), human.Count(int64(a.Seen)), human.Count(int64(a.Known)))
	if a.Invalid > 0 {
		text += ", " + human.Count(int64(a.Invalid)) + " invalid"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// sendURIs adds URIs. It stops at an invalid one, unless these are to be skipped.
func sendURIs(cmd *cobra.Command, m *calls.Master, name string, uris io.Reader, skip bool) error {
	path := calls.JobPath(name) + "/uris"
	if skip {
		path += "?skip_invalid=true"
	}
	resp, err := m.Do(cmd.Context(), http.MethodPost, path, "text/plain", uris)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var a added
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return err
	}
	return a.print(cmd.OutOrStdout())
}

// skipInvalid is the flag of commands that send lists of URIs.
func skipInvalid(cmd *cobra.Command, skip *bool) *cobra.Command {
	cmd.Flags().BoolVar(skip, "skip-invalid", false, "leave out lines that are no URIs, and count them, instead of failing")
	return calls.Patient(cmd) // millions of bytes may lie between it and the master when the list ends
}

// listIn is how long a server may take to begin sending a list of URIs.
const listIn = time.Minute

// openURIs opens the list of URIs that a job names, a file beside the job's or a URL; nil: the job
// itself contains them.
func openURIs(ctx context.Context, job string, source jobfile.Source) (io.ReadCloser, error) {
	from := cmp.Or(source.URL, source.File)
	if from == "" {
		return nil, nil
	}
	if source.File != "" && !filepath.IsAbs(from) {
		from = filepath.Join(filepath.Dir(job), from)
	}
	list, err := openList(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("%s: uris: %w", job, err)
	}
	return list, nil
}

// openList opens a list of URIs of any length: a file or a URL. The URL is called from this machine
// by the user of the command, not by the master.
func openList(ctx context.Context, from string) (io.ReadCloser, error) {
	if !strings.HasPrefix(from, "http://") && !strings.HasPrefix(from, "https://") {
		f, err := os.Open(from)
		if err != nil {
			return nil, err // not a typed nil
		}
		return f, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		// Neither it nor the cause is shown: they may have the password.
		return nil, errors.New("the address of the list is no URL; user and password, if any, must be percent-encoded")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = listIn
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", req.URL.Redacted(), resp.Status)
	}
	return &namedBody{resp.Body, req.URL.Redacted()}, nil
}

// namedBody adds to errors where the body comes from, and what to do.
type namedBody struct {
	io.ReadCloser
	from string
}

func (b *namedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w; some of its URIs may have been added; sending all of them again does no harm", b.from, err)
	}
	return n, err
}
