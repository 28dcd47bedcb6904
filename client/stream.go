package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

const (
	// trailerTotal and trailerDuplicates end a streamed answer. A short answer has them
	// as headers.
	trailerTotal      = "Urifilter-Total"
	trailerDuplicates = "Urifilter-Duplicates"
	// trailerError is the problem that ended the stream early.
	trailerError = "Urifilter-Error"
	// trailerInvalid counts the skipped items, and trailerInvalidItems describes the first.
	trailerInvalid      = "Urifilter-Invalid"
	trailerInvalidItems = "Urifilter-Invalid-Items"
)

// FilterLines sends r, one item a line (LF or CR LF; empty lines are skipped, and so is
// a byte order mark at the start), and writes the new ones to w, one a line, as the
// answers come. Memory does not grow with the size of r. It returns how many items were
// sent and how many of them were new.
//
// A stream is remembered in blocks of about 1 MiB, as it goes. If it breaks, w holds
// the beginning of the answer and fresh counts its lines, but more may have been
// remembered; total is then 0. An [*Error] whose Index is the line, from 0, says that the
// daemon refused that line, and has remembered nothing from its block on. A source of
// less than 1 MiB, with no more lines than the daemon accepts items in a call (100,000 by
// default), is one block: all or nothing, like [Client.Filter].
//
// w must accept writes while r is still being read. A Read of r that is in progress when
// the call fails may end after FilterLines has returned; no other follows.
func (c *Client) FilterLines(ctx context.Context, typ string, r io.Reader, w io.Writer, options ...CallOption) (total, fresh int64, err error) {
	return c.runFilter(ctx, stream{name: "filter", typ: typ, kind: "text/plain; charset=utf-8", options: collect(options)}, r, w)
}

// FilterNDJSON is [Client.FilterLines] for one JSON value a line.
func (c *Client) FilterNDJSON(ctx context.Context, typ string, r io.Reader, w io.Writer, options ...CallOption) (total, fresh int64, err error) {
	return c.runFilter(ctx, stream{name: "filter", typ: typ, kind: "application/x-ndjson", options: collect(options)}, r, w)
}

// CheckLines sends r as FilterLines does, remembers nothing, and writes "new" or "seen"
// for each item, one a line; with [SkipInvalid] "invalid" for one that was skipped.
func (c *Client) CheckLines(ctx context.Context, typ string, r io.Reader, w io.Writer, options ...CallOption) (total int64, err error) {
	return c.runCheck(ctx, stream{name: "check", typ: typ, kind: "text/plain; charset=utf-8", options: collect(options)}, r, w)
}

// CheckNDJSON is [Client.CheckLines] for one JSON value a line; it writes true (new),
// false (seen) or null (skipped).
func (c *Client) CheckNDJSON(ctx context.Context, typ string, r io.Reader, w io.Writer, options ...CallOption) (total int64, err error) {
	return c.runCheck(ctx, stream{name: "check", typ: typ, kind: "application/x-ndjson", options: collect(options)}, r, w)
}

func (c *Client) runFilter(ctx context.Context, s stream, r io.Reader, w io.Writer) (total, fresh int64, err error) {
	sum, lines, err := c.run(ctx, s, r, w)
	if fresh := sum.total - sum.duplicates - sum.Invalid; err == nil && lines != fresh {
		err = c.odd(s.name, reply{}, fmt.Errorf("%d lines, where %d of %d are new", lines, fresh, sum.total))
	}
	return sum.total, lines, err
}

func (c *Client) runCheck(ctx context.Context, s stream, r io.Reader, w io.Writer) (int64, error) {
	sum, lines, err := c.run(ctx, s, r, w)
	if err == nil && lines != sum.total {
		err = c.odd(s.name, reply{looks: true}, fmt.Errorf("%d verdicts for %d items", lines, sum.total))
	}
	return sum.total, looked(err)
}

type stream struct {
	name, typ, kind string
	options         callOptions
}

// sums are the totals at the end of the answer to a stream.
type sums struct {
	total, duplicates int64
	InvalidItems
}

// run sends r and copies the answer to w. lines counts what was written, even if the
// stream broke.
func (c *Client) run(ctx context.Context, s stream, r io.Reader, w io.Writer) (sum sums, lines int64, err error) {
	c.mustBeMade()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := newSource(ctx, r)
	defer body.Close()
	k := call{method: http.MethodPost, path: []string{"api", "v1", s.name}, query: url.Values{"filter_typeid": {s.typ}},
		kind: s.kind, body: body, length: body.length, streams: true}
	if body.length == 0 { // with another body, net/http takes 0 as "not known"
		k.body = http.NoBody
	}
	if s.options.expires {
		k.query.Set("expire", s.options.seconds())
	}
	if s.options.skips {
		k.query.Set("invalid", "skip")
	}
	res, err := c.open(ctx, k, body)
	if err != nil {
		return sums{}, 0, body.blame(err)
	}
	defer res.Body.Close()
	out := &lineWriter{w: w}
	if _, err := io.Copy(out, res.Body); err != nil {
		if out.err != nil {
			return sums{}, out.lines, fmt.Errorf("output: %w", out.err)
		}
		return sums{}, out.lines, body.blame(explain(ctx, k.method, res.Request.URL, fmt.Errorf("answer: %w", err), true))
	}
	c.noteOver(s.typ, res.Header, res.Trailer)
	if text := res.Trailer.Get(trailerError); text != "" {
		e := &Error{Method: k.method, URL: res.Request.URL.Redacted(), partly: true}
		if err := json.Unmarshal([]byte(text), &e.Problem); err != nil {
			return sums{}, out.lines, c.odd(s.name, reply{looks: s.name == "check"}, err)
		}
		return sums{}, out.lines, e
	}
	if sum, err = readSums(res); err != nil {
		return sums{}, out.lines, c.odd(s.name, reply{looks: s.name == "check"}, err)
	}
	s.options.tell(sum.InvalidItems)
	return sum, out.lines, nil
}

// open begins a stream. It repeats the call like [Client.exchange] as long as nothing of
// the body has been read, and never after that.
func (c *Client) open(ctx context.Context, k call, body *source) (*http.Response, error) {
	for t := c.newTries(k); ; {
		srv := c.servers.now()
		res, err := c.send(ctx, srv, k)
		if err == nil || body.touched.Load() || !t.next(ctx, srv, err) {
			return res, err
		}
	}
}

// readSums reads the totals that end every whole answer.
func readSums(res *http.Response) (sum sums, err error) {
	ended := func(name string) string { return cmp.Or(res.Trailer.Get(name), res.Header.Get(name)) }
	for name, into := range map[string]*int64{trailerTotal: &sum.total, trailerDuplicates: &sum.duplicates, trailerInvalid: &sum.Invalid} {
		value := ended(name)
		if value == "" && name == trailerInvalid {
			continue // the call did not ask to skip items
		}
		if *into, err = strconv.ParseInt(value, 10, 64); err != nil || *into < 0 {
			return sums{}, fmt.Errorf("%s is %q: the answer is cut, or a proxy dropped its trailers", name, value)
		}
	}
	if text := ended(trailerInvalidItems); text != "" {
		if err := json.Unmarshal([]byte(text), &sum.Items); err != nil {
			return sums{}, fmt.Errorf("%s: %w", trailerInvalidItems, err)
		}
	}
	return sum, nil
}

// lineWriter counts the lines that it passes on, and keeps the error of the writer behind it.
type lineWriter struct {
	w     io.Writer
	lines int64
	err   error
}

func (l *lineWriter) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	l.lines += int64(bytes.Count(p[:n], []byte{'\n'}))
	l.err = err
	return n, err
}
