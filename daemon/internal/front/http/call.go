package http

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/program/caller"
	"github.com/cr-clawer/urifilter/daemon/internal/program/gather"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// Statuses that no client sees: they show in logs and metrics how a call ended.
const (
	statusClientGone = 499 // the client left before the answer
	statusCut        = 599 // the answer was cut off after it had begun
)

// answerPiece is how much of an answer is written at once, with its own deadline.
const answerPiece = 256 << 10

// gatherFrom is the length from which net/http writes an answer in two calls: a buffer with the
// head and part of the body, and the rest.
const gatherFrom = 8 << 10

// lingerTime bounds how long a cut connection is still read.
const lingerTime = 10 * time.Second

// call is one request in the gate, with the buffers that it needs.
type call struct {
	s     *Server
	w     http.ResponseWriter
	r     *http.Request
	rc    *http.ResponseController
	route *route
	name  string // {name} in the path
	who   string // name of the token

	admitted  bool   // by the Authorization header, or because no tokens are required
	anonymous bool   // tokens are required, and there is no Authorization header: [access.Guard.Anonymous]
	running   string // the token among whose running calls it counts; "": none

	acted string // the audited action of an admitted call; "": none
	code  string // of the error in the answer

	start  time.Time
	status int            // answered; 0: not yet
	sent   int64          // bytes of the answer
	budget *budget.Shared // for bodies: Server.held, or Server.anonymous
	holder budget.Holder  // for whom it is taken
	held   int64          // taken from budget

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
	c.holder = budget.Holder{Address: caller.ElsewhereOfRemote(r.RemoteAddr)}
	c.rc = http.NewResponseController(w)
	c.start = time.Now()
	c.route, c.name = s.match(r.URL)
	c.body.begin(c)
	s.metrics.inFlight.Inc()
}

// serve is the gate: it checks the caller, the path, the method and the token, then runs the action.
func (c *call) serve() error {
	if err := c.s.access.Page(c.r); err != nil {
		return err
	}
	act, ok := c.route.actions[c.method()]
	switch {
	case len(c.route.actions) == 0:
		return &problem.Error{Code: problem.UnknownPath, Detail: "/openapi.yaml describes the paths"}
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
	c.holder.Token = c.who
	c.acted = act.audit
	if !act.ownQuery {
		if err := c.takes(act.query); err != nil {
			return err
		}
	}
	return act.do(c)
}

// takes refuses a call of the API with other parameters than those that are known. Callers of other paths, such as
// browsers and probes, may add what they like, and so may those of the old path, who always could.
func (c *call) takes(known []string) error {
	if c.r.URL.RawQuery == "" || !strings.HasPrefix(c.route.path, pathAPI) {
		return nil
	}
	_, err := problemdetail.Query(c.r, known...)
	return err
}

// authenticateHeader admits the call by its Authorization header; present is false if
// there is none.
func (c *call) authenticateHeader(scope string) (present bool, err error) {
	c.who, present, err = c.s.access.Header(c.accessCall(scope))
	return present, c.enter(err)
}

// admit checks that secret is a token with the scope.
func (c *call) admit(secret, scope string) (err error) {
	c.who, err = c.s.access.Token(c.accessCall(scope), secret)
	return c.enter(err)
}

// enter counts the call among those of its token, unless err refuses it, it is counted, or it has
// no body with which it could last.
func (c *call) enter(err error) error {
	if err != nil || c.who == "" || c.running != "" || c.method() == http.MethodGet {
		return err
	}
	if err := c.s.access.Enter(c.who); err != nil {
		return err
	}
	c.running = c.who
	return nil
}

func (c *call) accessCall(scope string) access.Call {
	return access.Call{Request: c.r, Path: c.route.path, Scope: scope}
}

// method returns the request's method; a HEAD is answered like a GET, whose body net/http drops.
func (c *call) method() string {
	if c.r.Method == http.MethodHead {
		return http.MethodGet
	}
	return c.r.Method
}

// end releases what the call holds. A panic is answered and logged; the server survives
// it.
func (c *call) end() {
	p := recover()
	c.body.close()
	c.release(c.held)
	if c.running != "" {
		c.s.access.Leave(c.running)
	}
	if p != nil && p != http.ErrAbortHandler {
		c.s.log.Error("panic in a request", "path", c.route.path, "err", p, "stack", string(debug.Stack()))
		if c.status == 0 {
			p = c.failPanic(p)
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

// failPanic answers a call that has panicked with p. It returns p, or ErrAbortHandler if the client is
// gone, too.
func (c *call) failPanic(p any) (left any) {
	defer func() {
		if gone := recover(); gone != nil {
			left = gone
		}
	}()
	c.fail(errPanic)
	return p
}

func (c *call) record() {
	took := time.Since(c.start)
	c.route.count(c.status)
	c.s.metrics.inFlight.Dec()
	if c.code != "" {
		method := "other" // values that clients choose freely must not become labels
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

// hangUp cuts the connection, so that the part already sent is not taken for an answer.
func (c *call) hangUp(status int) {
	c.status = status
	panic(http.ErrAbortHandler)
}

// linger ends the connection's sending half, and for a while reads and discards. If the
// connection were closed while the client still sends, the system would throw away data
// that the client has not yet read. HTTP/2 resets only the stream and does not need this.
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

// send answers with a complete body.
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
		// Each piece has its own deadline, so that a client that stops reading a large answer is noticed soon.
		c.writeBy(time.Now().Add(c.s.limits.BodyTimeout + time.Duration(len(piece)/minBytesPerSecond)*time.Second))
		if first {
			c.w.WriteHeader(status)
		}
		if err := c.write(piece); err != nil {
			c.hangUp(statusClientGone)
		}
	}
	return nil
}

// sendOut answers with out, which is counted until it is sent. Its items may be remembered, so it is sent even if there
// is no room for it: the body, which nobody needs any more, then gives its own.
func (c *call) sendOut(contentType []string) error {
	if n := int64(cap(c.out)); n > firstRead && !c.hold(n) {
		c.buf, c.req = nil, items.Request{}
	}
	return c.send(http.StatusOK, contentType, c.out)
}

// write writes a piece of the answer, with the head before the first one.
func (c *call) write(piece []byte) error {
	var answer *gather.Answer
	if len(piece) >= gatherFrom {
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

// writeBy sets the deadline after which a client that does not read is cut off.
func (c *call) writeBy(t time.Time) {
	// If it is not supported (a test's recorder), no client can be slow.
	_ = c.rc.SetWriteDeadline(t)
}

// sharedHeader holds header values that answers share; they are never changed.
type sharedHeader struct{ json, bits, problem, text, ndjson, yaml, accept, noStore, noSniff []string }

func newSharedHeader() sharedHeader {
	return sharedHeader{
		json:    []string{"application/json"},
		bits:    []string{client.MediaBits},
		problem: []string{"application/problem+json"},
		text:    []string{"text/plain; charset=utf-8"},
		ndjson:  []string{"application/x-ndjson"},
		yaml:    []string{"application/yaml"},
		accept:  []string{"Accept"},
		noStore: []string{"no-store"},
		noSniff: []string{"nosniff"},
	}
}

// Calls are pooled by the size of their buffers, so that small requests do not hold
// the memory of large ones; the largest are not pooled.
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

// put keeps a call for reuse, with nothing of the request but its buffers. One from a caller without a
// token is not kept: its list may be large, and nothing counts it.
func (p *callPool) put(c *call) {
	known, anonymous := c.who != "", c.anonymous
	c.req.Reset()
	c.work.End()
	*c = call{buf: c.buf, req: c.req, work: c.work, out: c.out, packed: c.packed}
	switch size := max(cap(c.buf), cap(c.out), cap(c.packed)); {
	case anonymous:
		if known && size <= 2*anonymousBody {
			p.anonymous.Put(c)
		}
	case size <= smallBody:
		p.small.Put(c)
	case size <= largeBody:
		p.large.Put(c)
	}
}
