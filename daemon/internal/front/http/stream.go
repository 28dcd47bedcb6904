package http

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/front/http/spool"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

const (
	streamBlock = 1 << 20 // bytes of a body that make a batch
	streamHeld  = 4 << 20 // what a stream adds to Limits.HeldBytes: block, answer, spool

	headerTotal      = "Urifilter-Total"
	headerDuplicates = "Urifilter-Duplicates"
	// headerError is the trailer with the problem that ended a stream early, as JSON.
	headerError = "Urifilter-Error"
)

// stream judges a body of lines, batch by batch, and answers while the body still comes.
//
// Until the first batch is judged, an error is answered with its status, and nothing is
// remembered. From then on items are remembered, so an error cuts the connection after the
// answer so far: a client never takes a part for the whole.
type stream struct {
	c     *call
	j     judgement
	media media

	out               *spool.Queue
	sending           chan struct{} // closed when the sender has ended; nil: not started
	settled           bool          // the sender has ended, and settle has waited for it
	total, duplicates int64

	coding *coding // of the answer; nil: none

	skips   bool // invalid lines are skipped
	skipped skippedLines
}

func (c *call) stream(j judgement, m media) error {
	if !c.admitted {
		return c.s.access.NoToken(c.accessCall(j.scope), "send the token of a stream in the Authorization header")
	}
	skips, err := c.streamQuery(j)
	if err != nil {
		return err
	}
	if !c.hold(streamHeld) {
		return c.overloaded()
	}
	if err := c.body.open(false, 0); err != nil {
		return err
	}
	st := &stream{c: c, j: j, media: m, skips: skips}
	st.out = c.s.spool.NewQueue(c.holder, st.pace)
	defer st.close()
	return st.run()
}

func streamParameters() []string { return []string{"expire", "filter", "filter_typeid", "invalid"} }

// streamQuery reads the query, which has the parameters that are members in JSON.
func (c *call) streamQuery(j judgement) (skips bool, err error) {
	query, err := problemdetail.Query(c.r, streamParameters()...)
	if err != nil {
		return false, err
	}
	for name, values := range query {
		if len(values) > 1 {
			return false, &problem.Error{Code: problem.InvalidParameter, Detail: name + " is given twice"}
		}
	}
	if query.Has("filter") && query.Has("filter_typeid") {
		return false, &problem.Error{Code: problem.InvalidParameter, Detail: "filter and filter_typeid are two names of one parameter: give one of them"}
	}
	ref := query.Get("filter") + query.Get("filter_typeid")
	if ref == "" {
		return false, &problem.Error{Code: problem.MissingParameter, Detail: "want ?filter= (or ?filter_typeid=) and the name or id of a filter"}
	}
	if _, err := c.s.engine.Find(c.r.Context(), ref); err != nil {
		return false, err // before any fault of the time
	}
	expire := batch.Expire{Given: query.Has("expire")}
	if expire.Given {
		if expire.Seconds, err = items.Seconds(query.Get("expire")); err != nil {
			return false, err
		}
	}
	switch value := query.Get("invalid"); value {
	case items.InvalidSkip:
		skips = true
	case items.InvalidReject:
	default:
		if query.Has("invalid") {
			known := []string{items.InvalidReject, items.InvalidSkip}
			return false, &problem.Error{Code: problem.InvalidParameter, Detail: "invalid: found " + strconv.Quote(value), Known: known}
		}
	}
	return skips, c.s.judge.Begin(c.r.Context(), &c.work, j.op, ref, expire)
}

func (st *stream) run() error {
	c := st.c
	format, odd := items.Lines, c.warnOdd
	if st.media == mediaNDJSON {
		format, odd = items.NDJSON, nil
	}
	limits := items.Limits{Items: c.s.limits.Items, ItemBytes: int(c.s.limits.ItemBytes), Skip: st.skips}
	block := int64(streamBlock)
	if n := c.r.ContentLength; n > 0 && c.body.unzip == nil {
		block = min(block, n+1) // 1: room to see the end in the same read
	}
	lines := items.NewReader(linesOf(&c.body, odd), format, limits, int(block))
	lines.Grow = func(more int) error { // for a line longer than a block
		if !c.hold(int64(more)) {
			return c.overloaded()
		}
		return nil
	}
	list := &c.req.List
	for judged := false; ; judged = true {
		more, err := lines.Next(list)
		if err == nil && !more {
			return st.finish()
		}
		if judged {
			st.start() // this is not the last batch, so the answer can begin
		}
		if err == nil {
			err = st.judge(list)
		}
		switch {
		case err == nil:
		case judged:
			st.cut(err)
			return nil // a trailer has reported it
		default:
			return err
		}
		if !c.body.done {
			st.start()
		}
	}
}

// judge judges a batch and queues its answer.
func (st *stream) judge(l *items.List) error {
	c := st.c
	if err := c.s.judge.Resume(&c.work); err != nil {
		return err
	}
	if err := c.s.judge.Apply(c.r.Context(), &c.work, l); err != nil {
		return err
	}
	st.total += int64(l.Len() + l.Skipped())
	st.duplicates += int64(l.Len() - c.work.New)
	st.skipped.add(l)
	c.s.tallies.Skipped(c.work.Filter, l.Skipped())
	c.out = st.j.lines(c.out[:0], l, c.work.IsNew, st.media)
	return st.write(c.out)
}

// write queues a part of the answer. If the spool is full, it waits for the client.
func (st *stream) write(p []byte) error {
	done, err := st.out.TryWrite(p)
	if done {
		return err
	}
	st.start()
	if st.sending == nil {
		return &problem.Error{Code: problem.Overloaded, Detail: "no room to buffer the answer until the request ends"}
	}
	return st.out.Write(p)
}

// start begins the answer, which from now on is sent while the body still comes. HTTP/1.0
// clients do not know chunks, so they could not notice a cut: their answer waits for the
// end.
func (st *stream) start() {
	c := st.c
	if st.sending != nil || !c.r.ProtoAtLeast(1, 1) {
		return
	}
	_ = c.rc.EnableFullDuplex() // HTTP/2 has nothing to enable
	c.writeBy(time.Time{})      // the client may send everything before it reads
	st.headers()
	trailers := headerTotal + ", " + headerDuplicates + ", " + headerOver + ", " + headerError
	if st.skips {
		trailers += ", " + headerInvalid + ", " + headerInvalidItems
	}
	c.w.Header().Set("Trailer", trailers)
	c.status = http.StatusOK
	st.packAs(c.coding(int64(c.s.limits.CompressBytes)))
	c.w.WriteHeader(c.status)
	st.send()
}

func (st *stream) headers() {
	h, shared := st.c.w.Header(), &st.c.s.header
	h["Content-Type"] = shared.text
	if st.media == mediaNDJSON {
		h["Content-Type"] = shared.ndjson
	}
	h["Cache-Control"] = shared.noStore
	h["X-Content-Type-Options"] = shared.noSniff
}

// packAs has the answer compressed; nil: uncompressed. The header must not have been sent.
func (st *stream) packAs(k *coding) {
	if st.coding = k; k != nil {
		st.c.w.Header().Set("Content-Encoding", k.name)
	}
}

// send starts the sender, which moves the spool to the client.
func (st *stream) send() {
	st.sending = make(chan struct{})
	go func() {
		defer close(st.sending)
		if st.coding == nil {
			st.c.sent = st.out.Drain(st.c.w, st.c.rc.Flush)
			return
		}
		p := st.coding.open(st.c.w)
		defer st.coding.release(p)
		st.c.sent = st.out.Drain(p, func() error { return errors.Join(p.Flush(), st.c.rc.Flush()) })
		if st.out.Err() == nil {
			if err := p.Close(); err != nil {
				st.out.Fail(fmt.Errorf("%w: %w", spool.ErrClientGone, err))
			}
		}
	}()
}

// pace gives the client a limited time to read the next piece of the answer, or removes the limit.
func (st *stream) pace(urgent bool) {
	if urgent {
		st.c.writeBy(time.Now().Add(st.c.s.limits.BodyTimeout))
	} else {
		st.c.writeBy(time.Time{})
	}
}

// finish ends a complete answer.
func (st *stream) finish() error {
	c := st.c
	h := c.w.Header()
	if st.sending == nil { // nothing is sent yet: the length is known, and the totals
		st.headers()
		st.totals(h)
		if c.r.ProtoAtLeast(1, 1) { // without a length, HTTP/1.0 cannot tell an end from a cut
			st.packAs(c.coding(st.out.Len()))
		}
		if st.coding == nil {
			h.Set("Content-Length", strconv.FormatInt(st.out.Len(), 10))
		}
		c.status = http.StatusOK
		c.w.WriteHeader(c.status)
		st.send()
	}
	if err := st.settle(); err != nil {
		c.hangUp(statusClientGone)
	}
	st.totals(h) // as trailers, if the answer had begun
	return nil
}

func (st *stream) totals(h http.Header) {
	h.Set(headerTotal, strconv.FormatInt(st.total, 10))
	h.Set(headerDuplicates, strconv.FormatInt(st.duplicates, 10))
	if st.skips {
		st.skipped.tell(h)
	}
	st.c.setOverCapacity(h)
}

// settle waits until the client has read all queued data.
func (st *stream) settle() error {
	st.out.End()
	<-st.sending
	st.settled = true
	st.pace(true) // for the data that net/http still has to send
	return st.out.Err()
}

// close stops the sender, which must not outlive the call, and frees the spool.
func (st *stream) close() {
	if st.sending != nil && !st.settled { // during a panic
		st.out.Fail(spool.ErrClientGone)
		st.c.writeBy(time.Now()) // wakes a sender whose client does not read
		<-st.sending
	}
	st.out.Free()
}
