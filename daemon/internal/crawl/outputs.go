package crawl

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/frontier"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/graph"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/pages"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/warc"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// Files of a crawl, in its folder.
const (
	IndexFile  = "index.ndjson"
	FailedFile = "failed.ndjson"
	pagesDir   = "pages"
	filterDir  = "filter"
	LogFile    = "crawl.log"
)

// lineLog is a file of lines, whose length is its committed state. It is for one goroutine.
type lineLog struct {
	name    string
	file    *disk.File
	size    int64 // bytes that were written
	pending []byte
	line    func(o *frontier.Outcome) ([]byte, error) // nil: this outcome has none
}

// openLines opens a file of lines, and cuts it to its committed length.
func openLines(dir, name, committed string, line func(*frontier.Outcome) ([]byte, error)) (*lineLog, error) {
	keep := int64(0)
	if committed != "" {
		var err error
		if keep, err = strconv.ParseInt(committed, 10, 64); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(dir, name)
	file, err := disk.FS{}.OpenFile("crawl-lines", path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	switch {
	case err != nil:
	case size < keep:
		err = fmt.Errorf("%s: has %d bytes, want %d: lines that were committed are missing\nhint: restore the file, or start a new crawl in another folder", path, size, keep)
	case size > keep: // written before a crash, and not committed
		err = errors.Join(file.Truncate("crawl-lines-cut", keep), file.Sync("crawl-lines-cut"))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &lineLog{name: name, file: file, size: keep, line: line}, nil
}

func (l *lineLog) Name() string { return l.name }

func (l *lineLog) Append(o *frontier.Outcome) error {
	line, err := l.line(o)
	l.pending = append(l.pending, line...)
	return err
}

func (l *lineLog) Sync() (string, error) {
	if len(l.pending) > 0 {
		if err := l.file.WriteAt("crawl-lines-write", l.pending, l.size); err != nil {
			return "", err
		}
		if err := l.file.Sync("crawl-lines-sync"); err != nil {
			return "", err
		}
		l.size += int64(len(l.pending))
		l.pending = l.pending[:0]
	}
	return strconv.FormatInt(l.size, 10), nil
}

// page is what the outputs know about a page besides what the frontier knows.
type page struct {
	record  pages.Record
	encoded warc.Encoded // nil: no archive is written
}

// indexLine makes the line of a page.
func indexLine(o *frontier.Outcome) ([]byte, error) {
	if !o.Stored {
		return nil, nil
	}
	r := o.Page.Data.(page).record
	if r.URI = o.URI; r.Final == r.URI {
		r.Final = ""
	}
	r.DuplicateOf, r.Depth, r.Referrer, r.Time = o.Original, o.Depth, o.Referrer, o.Time
	return r.Line()
}

// Failed is a line of failed.ndjson: a URI that was given up.
type Failed struct {
	URI      string    `json:"uri"`
	Reason   string    `json:"reason"` // a word: http_404, dns_not_found, robots, ...
	Status   int       `json:"status"` // of HTTP, 0: no answer
	Text     string    `json:"text"`
	Attempts int       `json:"attempts"`
	Depth    int       `json:"depth"`
	Referrer string    `json:"referrer"`
	Time     time.Time `json:"time"`
}

func failedLine(o *frontier.Outcome) ([]byte, error) {
	if o.Failure == nil || !o.Final {
		return nil, nil
	}
	status, _ := o.Failure.Data.(int)
	line, err := json.Marshal(Failed{URI: o.URI, Reason: o.Failure.Reason, Status: status, Text: o.Failure.Text, Attempts: o.Attempts + 1,
		Depth: o.Depth, Referrer: o.Referrer, Time: o.Time.UTC().Truncate(time.Millisecond)})
	return append(line, '\n'), err
}

// anchor has the parts of a link besides its URI.
type anchor struct{ text, rel string }

// graphLines makes the lines for the links of a page, and for the redirects to it.
func graphLines(o *frontier.Outcome) (lines []byte, err error) {
	from := o.Entry.URI
	for i, t := range o.Redirects {
		to := t.URI
		if o.Stored && i == len(o.Redirects)-1 {
			to = o.URI
		}
		if to != from {
			if lines, err = graph.AppendLine(lines, graph.Edge{From: from, To: to, Rel: "redirect"}); err != nil {
				return nil, err
			}
		}
		from = to
	}
	for _, e := range o.Edges {
		a, _ := e.Data.(anchor)
		if lines, err = graph.AppendLine(lines, graph.Edge{From: o.URI, To: e.To, Text: a.text, Rel: a.rel}); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

// folderOutput makes the names of pages durable before the records that name them are committed.
type folderOutput struct{ folder *pages.Folder }

func (f folderOutput) Name() string                   { return pagesDir }
func (f folderOutput) Append(*frontier.Outcome) error { return nil }
func (f folderOutput) Sync() (string, error)          { return "", f.folder.Sync() }
