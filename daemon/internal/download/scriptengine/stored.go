package scriptengine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// unstoredFor is the pause before a page that is not stored yet is looked for again.
const unstoredFor = 10 * time.Second

// Stored is the part of a [download.Store] that is needed to read a page.
type Stored interface {
	ListTasks(ctx context.Context, q download.Query, each func(download.Task) error) error
	ListData(ctx context.Context, q download.Query, each func(download.Data) error) error
	Body(ctx context.Context, task string) (io.ReadCloser, error)
}

// stored returns the page that a run of parse is about.
func (a *attempt) stored(ctx context.Context) (*wire.Page, error) {
	uri := download.PageOf(a.w.Task.URI)
	q := download.Query{Job: a.w.Task.Job, Task: download.TaskID(a.w.Task.Job, uri)}
	page := a.w.Task
	page.State = download.Failed // in case it does not exist
	if err := a.e.o.Stored.ListTasks(ctx, q, func(t download.Task) error { page = t; return nil }); err != nil {
		return nil, err
	}
	switch page.State {
	case download.Done:
	case download.Failed:
		return nil, &worker.Failure{Reason: "page: was not stored: its download failed", Permanent: true}
	default: // its worker made this task but has not stored the page; perhaps it was killed in between
		return nil, &worker.Failure{Reason: "page: is not stored yet", Early: true, After: unstoredFor}
	}
	var data *download.Data
	if err := a.e.o.Stored.ListData(ctx, q, func(d download.Data) error { data = &d; return nil }); err != nil {
		return nil, err
	}
	if data == nil {
		return nil, errors.New("page: its task is done and has no data")
	}
	if data.Size > script.MaxPage {
		return nil, &worker.Failure{Reason: "body_too_large: a page that is parsed may have 8 MiB", Permanent: true}
	}
	body, err := a.e.o.Stored.Body(ctx, q.Task)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	return &wire.Page{
		URL: data.URI, Status: data.Status, ContentType: data.ContentType, Body: text, Headers: headersOf(data.Header), Records: listOf(data.Records),
	}, nil
}

// headersOf returns headers as code sees them.
func headersOf(h http.Header) map[string]string {
	all := map[string]string{}
	for name, values := range h {
		all[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return all
}

// listOf makes a JSON list of values that are one per line; nil for none.
func listOf(lines []byte) []byte {
	text := strings.TrimSpace(string(lines))
	if text == "" {
		return nil
	}
	return []byte("[" + strings.ReplaceAll(text, "\n", ",") + "]")
}
