package api

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/api/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/api/pace"
	"github.com/cr-clawer/urifilter/daemon/internal/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/items"
	"github.com/cr-clawer/urifilter/daemon/internal/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/gather"
)

// Statuses that no client sees: they tell in logs and metrics how a call ended.
const (
	statusClientGone = 499 // nobody was there to be answered
	statusCut        = 599 // the answer was begun and cut off
)

// answerPiece is how much of an answer is written at once, with a deadline of its own.
const answerPiece = 256 << 10

// gathered is from which length on net/http writes an answer in two calls: a bufferful of head
// and body, and what is left.
const gathered = 8 << 10

// lingerTime bounds how long a connection that is cut is read on.
const lingerTime = 10 * time.Second

// call is one request on its way through the gate, with the buffers that it needs.
type call struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	rc    *http.ResponseController
	route *route
	name  string // {name} in the path
	who   string // name of the token

	admitted  bool // by the Authorization header, or because no tokens are asked for
	anonymous bool // tokens are asked for, and there is no Authorization header

	acted string // what an admitted call did that is audited; "": nothing
	code  string // of the error that was answered

	start  time.Time
	status int            // answered; 0: not yet
	sent   int64          // bytes of the answer
	budget *budget.Budget // for bodies: Server.held, or Server.anonymous until a token was seen
	held   int64          // taken of it

	body body
	buf  []byte // the JSON body
	req  items.Request
	work batch.Batch
	out  []byte

	packed []byte // the answer, compressed
}

// begin readies a pooled call for a request.
func (c *call) begin(s *Server, w http.ResponseWriter, r *http.Request, anonymous bool) {
	c.s, c.w, c.r = s, w, r
	c.anonymous, c.budget = anonymous, s.held
	if anonymous {
		c.budget = s.anonymous
	}
	c.rc = http.NewResponseController(w)
	c.start = time.Now()
	c.route, c.name = s.match(r.URL.Path)
	c.who, c.status, c.sent = "", 0, 0
	c.acted, c.code = "", ""
	c.body.begin(c)
	s.metrics.inFlight.Inc()
}

// serve is the gate: who calls from where, the path, the method, the token, then the action.
func (c *call) serve() error {
	if err := c.s.access.Page(c.r); err != nil {
		return err
	}
	act, ok := c.route.actions[c.method()]
	switch {
	case len(c.route.actions) == 0:
		return &problem.Error{Code: problem.UnknownPath, Detail: "/ lists the paths"}
	case !ok:
		return &problem.Error{Code: problem.MethodNotAllowed, Detail: "want " + c.route.allow, Header: [2]string{"Allow", c.route.allow}}
	}
	c.admitted = act.scope == "" || !c.s.access.AsksTokens()
	if !c.admitted {
		var err error
		if c.admitted, err = c.authenticateHeader(act.scope); err != nil {
			return err
		}
	}
	if !c.admitted && !act.tokenInBody {
		return c.admit("", act.scope)
	}
	c.acted = act.audit
	return act.do(c)
}

// authenticateHeader admits the call by its Authorization header; present is false where
// there is none.
func (c *call) authenticateHeader(scope string) (present bool, err error) {
	c.who, present, err = c.s.access.Header(c.asking(scope))
	return present, err
}

// admit checks that secret is a token with the scope.
func (c *call) admit(secret, scope string) (err error) {
	c.who, err = c.s.access.Token(c.asking(scope), secret)
	return err
}

func (c *call) asking(scope string) access.Call {
	return access.Call{Request: c.r, Path: c.route.path, Scope: scope}
}

// method is that of the request; a HEAD is answered as a GET, whose body net/http drops.
func (c *call) method() string {
	if c.r.Method == http.MethodHead {
		return http.MethodGet
	}
	return c.r.Method
}

// end lets go of what the call holds. A panic on the way is answered and logged; the
// server survives it.
func (c *call) end() {
	p := recover()
	c.body.close()
	c.release(c.held)
	if p != nil && p != http.ErrAbortHandler {
		c.s.log.Error("panic in a request", "path", c.route.path, "err", p, "stack", string(debug.Stack()))
		if c.status == 0 {
			c.fail(errPanic)
		} else {
			c.status, p = statusCut, http.ErrAbortHandler
		}
	}
	c.record()
	switch p {
	case nil:
		c.s.calls.put(c)
	case http.ErrAbortHandler:
		panic(p)
	}
}

var errPanic = errors.New("panic")

func (c *call) record() {
	took := time.Since(c.start)
	c.route.count(c.status)
	c.s.metrics.inFlight.Dec()
	if c.code != "" {
		method := "other" // what clients choose freely is no label
		if _, ok := c.route.actions[c.method()]; ok {
			method = c.r.Method
		}
		c.s.metrics.errors.WithLabelValues(c.route.path, method, c.code).Inc()
	}
	c.route.seconds.Observe(took.Seconds())
	if c.acted != "" {
		c.audit()
	}
	ctx := c.r.Context()
	if c.s.log.Enabled(ctx, slog.LevelDebug) {
		c.s.log.DebugContext(ctx, "request", "method", c.r.Method, "path", c.route.path, "name", c.name, "status", c.status,
			"bytes_in", c.body.read, "bytes_out", c.sent, "took", took, "remote", c.r.RemoteAddr, "token", c.who)
	}
}

// hangUp cuts the connection, so that what was sent is not taken for an answer.
func (c *call) hangUp(status int) {
	c.status = status
	panic(http.ErrAbortHandler)
}

// linger ends the connection's sending half, and reads on for a while to no purpose.
// To close it while the client still sends would make the system throw away what was
// sent and not yet read. HTTP/2 resets the stream alone and does not need this.
func (c *call) linger() {
	conn, _, err := c.rc.Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || conn.SetDeadline(time.Now().Add(min(lingerTime, c.s.limits.BodyTimeout))) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, conn)
}

// send answers with a body that is whole.
func (c *call) send(status int, contentType []string, body []byte) error {
	h := c.w.Header()
	h["Content-Type"] = contentType
	h["Cache-Control"] = c.s.header.noStore
	h["X-Content-Type-Options"] = c.s.header.noSniff
	body = c.pack(h, body)
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	c.status, c.sent = status, int64(len(body))
	for first := true; first || len(body) > 0; first = false {
		piece := body[:min(len(body), answerPiece)]
		body = body[len(piece):]
		// Each piece has its time, so that a client that reads nothing of a large answer is noticed soon.
		c.writeBy(time.Now().Add(c.s.limits.BodyTimeout + time.Duration(len(piece)/pace.MinBytesPerSecond)*time.Second))
		if first {
			c.w.WriteHeader(status)
		}
		if err := c.write(piece); err != nil {
			c.hangUp(statusClientGone)
		}
	}
	return nil
}

// write writes a piece of the answer, with the head before the first one.
func (c *call) write(piece []byte) error {
	var answer *gather.Answer
	if len(piece) >= gathered {
		answer = gather.Of(c.r.Context())
	}
	answer.Hold()
	_, err := c.w.Write(piece)
	return errors.Join(err, answer.Release())
}

// sendNothing answers 204.
func (c *call) sendNothing() error {
	c.w.Header()["Cache-Control"] = c.s.header.noStore
	c.status = http.StatusNoContent
	c.w.WriteHeader(c.status)
	return nil
}

// writeBy sets the time after which a client that does not read is cut off.
func (c *call) writeBy(t time.Time) {
	// Where it is not supported (a test's recorder) no client can be slow.
	_ = c.rc.SetWriteDeadline(t)
}

// sharedHeader holds header values that answers share; they are never changed.
type sharedHeader struct{ json, problem, text, ndjson, yaml, noStore, noSniff []string }

func newSharedHeader() sharedHeader {
	return sharedHeader{
		json:    []string{"application/json"},
		problem: []string{"application/problem+json"},
		text:    []string{"text/plain; charset=utf-8"},
		ndjson:  []string{"application/x-ndjson"},
		yaml:    []string{"application/yaml"},
		noStore: []string{"no-store"},
		noSniff: []string{"nosniff"},
	}
}

// Calls are pooled by the size of their buffers, so that small requests do not hold
// the memory of large ones; the largest are left to the garbage collector.
const (
	smallBody = 1 << 20
	largeBody = 16 << 20
)

type callPool struct{ anonymous, small, large sync.Pool }

func (p *callPool) get(contentLength int64, anonymous bool) *call {
	pool := &p.small
	switch {
	case anonymous:
		pool = &p.anonymous
	case contentLength > smallBody/2:
		pool = &p.large
	}
	if c, ok := pool.Get().(*call); ok {
		return c
	}
	return new(call)
}

// put keeps a call for another request. What a caller without a token left is not kept: its
// list may be large, and is counted by nobody.
func (p *callPool) put(c *call) {
	known := c.who != ""
	c.s, c.w, c.r, c.rc, c.route, c.budget = nil, nil, nil, nil, nil, nil
	c.req.Reset() // it refers to the body, and to the token
	c.work.End()
	switch size := max(cap(c.buf), cap(c.out), cap(c.packed)); {
	case c.anonymous:
		if known && size <= 2*anonymousBody {
			p.anonymous.Put(c)
		}
	case size <= smallBody:
		p.small.Put(c)
	case size <= largeBody:
		p.large.Put(c)
	}
}
