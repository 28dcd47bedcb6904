package crawl

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/frontier"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/warc"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/body"
)

// archiveDir holds the files of --warc.
const archiveDir = "warc"

// archive is an output that writes the WARC files of a crawl.
type archive struct {
	w *warc.Writer

	mu sync.Mutex
	// others are exchanges that are no pages: redirects, errors, robots.txt. They are committed with the
	// next outcome of any URI; one that a crash takes is made again with what it belonged to.
	others []warc.Encoded
}

func openArchive(dir, committed, agent string) (*archive, error) {
	var at warc.Position
	if committed != "" {
		if err := json.Unmarshal([]byte(committed), &at); err != nil {
			return nil, err
		}
	}
	w, err := warc.Open(filepath.Join(dir, archiveDir), at, warc.Options{Info: [][2]string{{"software", agent}}})
	return &archive{w: w}, err
}

func (a *archive) Name() string { return archiveDir }

func (a *archive) Append(o *frontier.Outcome) error {
	a.mu.Lock()
	others := a.others
	a.others = nil
	a.mu.Unlock()
	for _, one := range others {
		if err := a.w.Append(one); err != nil {
			return err
		}
	}
	if !o.Stored {
		return nil
	}
	return a.w.Append(o.Page.Data.(page).encoded)
}

func (a *archive) Sync() (string, error) {
	at, err := a.w.Sync()
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(at)
	return string(text), err
}

// archived encodes an answer for the archive. Of the request only what the crawl itself sets is known.
func (c *Crawl) archived(answer *fetch.Response, received []byte) (warc.Encoded, error) {
	return c.encoded(answer.URI, answer.Status, answer.Header, answer.Remote, received)
}

func (c *Crawl) encoded(uri string, status int, header http.Header, remote string, received []byte) (warc.Encoded, error) {
	return warc.Encode(warc.Exchange{
		URI: uri, Time: time.Now(), Remote: remote, Status: status, Header: header, Body: received,
		RequestHeader: http.Header{"User-Agent": {c.agent}, "Accept": {accept}, "Accept-Encoding": {body.Accepted}},
	})
}

// add keeps an exchange that is no page for the next commit.
func (a *archive) add(one warc.Encoded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.others = append(a.others, one)
}

// archivePassed returns what writes redirects to the archive; nil: there is none.
func (c *Crawl) archivePassed() func(fetch.Passed) {
	if c.archive == nil {
		return nil
	}
	return func(p fetch.Passed) {
		one, err := c.encoded(p.URI, p.Status, p.Header, p.Remote, p.Body)
		if err != nil {
			c.log.Warn("not archived", "uri", p.URI, "err", err)
			return
		}
		c.archive.add(one)
	}
}

// archiveOther writes an answer that is no page to the archive.
func (c *Crawl) archiveOther(answer *fetch.Response) error {
	if c.archive == nil {
		return nil
	}
	received, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	return c.archiveText(answer, received)
}

func (c *Crawl) archiveText(answer *fetch.Response, received []byte) error {
	if c.archive == nil {
		return nil
	}
	one, err := c.archived(answer, received)
	if err == nil {
		c.archive.add(one)
	}
	return err
}
