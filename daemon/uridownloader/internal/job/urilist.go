package job

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/jobfile"
)

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
		return nil, err
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
