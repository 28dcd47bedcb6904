package resp

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/program/caller"
	"github.com/cr-clawer/urifilter/daemon/internal/program/wrongport"
)

const (
	// flushAt is how many bytes of answers wait while further commands are at hand.
	flushAt = 64 << 10
	// keptOut is how large a buffer for answers a waiting connection may keep.
	keptOut = 64 << 10
	// maxMerged is how many pipelined commands of one item become one batch.
	maxMerged = 1024
	// knownFor is for how long a token is believed before it is looked up again: a token that is
	// taken away ends its connections' rights after this time.
	knownFor = time.Second
	// closeGrace is for how long a client may send nothing before its connection is closed, whose sending half is:
	// long enough for a round trip over a long distance.
	closeGrace = 500 * time.Millisecond
)

// conn is one connection, with the buffers that its commands need. One goroutine uses it.
type conn struct {
	s         *Server
	raw, rw   net.Conn // rw speaks TLS, if callers do
	encrypted bool
	id        int64
	name      string // as CLIENT SETNAME says
	quit      bool
	multi     bool // within a transaction, of which nothing is done

	secret string // of the token with which the client has logged in; "": it has not
	asked  time.Time
	scopes map[string]bool // that were found allowed since

	rd    reader
	ahead bool      // rd.args is a command that has not been done yet
	armed time.Time // when a deadline was set for the rest of a command; zero: there is none
	wr    writer

	filter string // the last one that was named
	list   items.List
	spans  []scan.Span
	work   batch.Batch

	loads map[string]*loading // by the name of the filter

	holder budget.Holder // for whom memory is taken
	held   int64         // how much is
	items  int64         // of it, for the items of the largest command since the client was last waited for
	out    int64         // of it, for answers that are not sent yet
}

// hold takes memory from what all calls may have, until give.
func (c *conn) hold(n int64) bool {
	ok := c.s.opt.Bodies.Take(c.holder, n, c.held)
	if ok {
		c.held += n
	}
	return ok
}

func (c *conn) give(n int64) {
	c.s.opt.Bodies.Give(c.holder, n)
	c.held -= n
}

func newConn(s *Server, raw net.Conn, encrypted bool) *conn {
	c := &conn{s: s, raw: raw, encrypted: encrypted, id: s.ids.Add(1), wr: writer{proto: 2}, loads: map[string]*loading{}}
	c.holder.Address = caller.ElsewhereOfRemote(raw.RemoteAddr().String())
	c.rd = reader{
		src: reading{c}, left: -1, bytes: s.opt.Limits.CommandBytes, count: s.opt.Limits.Items + 16,
		take: func(n int) bool { return c.hold(int64(n)) }, give: func(n int) { c.give(int64(n)) },
	}
	c.logOut()
	c.rd.reset()
	return c
}

// reading reads from a connection, and first looks at which protocol it speaks.
type reading struct{ c *conn }

func (r reading) Read(b []byte) (int, error) {
	c := r.c
	if c.rw == nil {
		n, err := c.raw.Read(b)
		if n == 0 || c.encrypted == (b[0] == 0x16) { // a handshake of TLS begins so
			c.rw = c.raw
		}
		switch {
		case c.rw != nil && c.encrypted && n > 0:
			c.rw = tls.Server(&replayed{Conn: c.raw, first: bytes.Clone(b[:n])}, c.s.opt.TLS)
			return c.rw.Read(b)
		case c.rw == nil && c.encrypted && wrongport.IsRequest(b[:n]):
			c.rw = c.raw
			c.answerHTTP()
			return 0, io.EOF
		case c.rw == nil && c.encrypted:
			return 0, protocolError("this port speaks TLS: connect with TLS (redis-cli --tls, rediss://)")
		case c.rw == nil:
			return 0, protocolError("this port speaks RESP without TLS: connect without it (redis://); HTTP is at " + c.s.opt.HTTP)
		}
		return n, err
	}
	return c.rw.Read(b)
}

// replayed is a connection of which the first bytes were already read.
type replayed struct {
	net.Conn
	first []byte
}

func (r *replayed) Read(b []byte) (int, error) {
	if len(r.first) > 0 {
		n := copy(b, r.first)
		r.first = r.first[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}

// serve answers commands until the client leaves, or cannot be understood, or the server stops.
func (c *conn) serve() {
	answered := false
	defer func() {
		if p := recover(); p != nil {
			c.s.opt.Log.Error("panic in a command", "err", p, "stack", string(debug.Stack()))
		}
		c.work.End()
		c.freeItems()
		c.giveOut()
		for name := range c.loads {
			c.endLoading(name)
		}
		c.rd.release()
		if answered {
			c.linger()
		}
		if c.rw != nil {
			_ = c.rw.Close()
		}
		_ = c.raw.Close()
	}()
	for !c.quit {
		ok, err := c.rd.next()
		for ok && err == nil {
			c.do()
			if len(c.wr.out) > flushAt && !c.flush() {
				return
			}
			if ok, c.ahead = c.ahead, false; ok {
				continue
			}
			if c.quit {
				break
			}
			ok, err = c.rd.next()
		}
		if err == nil && !c.quit {
			if !c.flush() {
				return
			}
			err = c.fill()
		}
		if err != nil {
			answered = c.end(err)
			return
		}
	}
	answered = c.flush()
}

// linger lets the client read its answers. If the connection were closed while the client is still sending, it
// would be reset, and answers to items that are remembered be thrown away on both sides.
func (c *conn) linger() {
	for _, one := range []net.Conn{c.rw, c.raw} {
		if half, ok := one.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite() // if it fails, so does reading
		}
	}
	var err error
	for now, late := time.Now(), time.Now().Add(c.s.opt.Limits.Timeout); err == nil && now.Before(late); now = time.Now() {
		_ = c.raw.SetReadDeadline(now.Add(closeGrace))
		_, err = c.raw.Read(c.rd.own)
	}
}

// fill reads more. A client may wait before a command for as long as it likes, but not within one: what
// has come of it takes memory.
func (c *conn) fill() error {
	c.freeItems()
	within, limit := c.rd.within(), c.s.opt.Limits.Timeout
	if now := time.Now(); within && now.Sub(c.armed) > limit/8 {
		c.armed = now
		c.readBy(now.Add(limit))
	}
	err := c.rd.fill()
	if !errors.Is(err, os.ErrDeadlineExceeded) || c.s.isDraining() {
		return err
	}
	if within {
		return errStalled
	}
	c.armed = time.Time{}
	c.readBy(time.Time{}) // it was for a command that has come
	return nil
}

// freeItems gives up what a command of very many items has taken.
func (c *conn) freeItems() {
	if c.items > 0 {
		c.work, c.list = batch.Batch{}, items.List{}
		c.give(c.items)
		c.items = 0
	}
}

// readBy sets the deadline for reading, unless that of Drain is set.
func (c *conn) readBy(t time.Time) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.s.draining {
		_ = c.raw.SetReadDeadline(t) // a connection that is closed says so when it is read
	}
}

// errStalled ends a connection whose client pauses within a command.
var errStalled = errors.New("stalled")

// end answers what ends the connection. It reports whether the client can still read.
func (c *conn) end(err error) bool {
	var protocol protocolError
	switch {
	case errors.As(err, &protocol):
		c.wr.fail("ERR " + protocol.Error())
	case errors.Is(err, errBudget):
		c.wr.fail(problem.RESP(&problem.Error{Code: problem.Overloaded, Detail: err.Error()}))
	case errors.Is(err, errStalled):
		c.wr.fail(problem.RESP(&problem.Error{Code: problem.RequestTimeout, Detail: "nothing came for " + c.s.opt.Limits.Timeout.String() + " within a command"}))
	}
	if c.rw == nil {
		c.rw = c.raw // the answer to one who speaks another protocol is in plain text
	}
	return c.flush()
}

// holdOut takes memory for n bytes of answers, until they are sent.
func (c *conn) holdOut(n int) bool {
	more := int64(n) - c.out
	if more > 0 && !c.hold(more) {
		return false
	}
	c.out += max(0, more)
	return true
}

func (c *conn) giveOut() {
	if c.out > 0 {
		c.give(c.out)
		c.out = 0
	}
}

// flush sends what was answered, even if there is no room for it: its items may be remembered. Commands that are done
// give theirs.
func (c *conn) flush() bool {
	if len(c.wr.out) == 0 {
		return true
	}
	if cap(c.wr.out) > keptOut {
		if !c.ahead && !c.rd.within() {
			c.rd.reset()
			c.freeItems()
		}
		c.holdOut(cap(c.wr.out))
	}
	defer c.giveOut()
	for out := c.wr.out; len(out) > 0; {
		if err := c.raw.SetWriteDeadline(time.Now().Add(c.s.opt.Limits.Timeout)); err != nil {
			return false
		}
		n, err := c.rw.Write(out[:min(len(out), 4*flushAt)])
		if err != nil {
			return false
		}
		out = out[n:]
	}
	if cap(c.wr.out) > keptOut {
		c.wr.out = nil
	}
	c.wr.out = c.wr.out[:0]
	return true
}

// answerHTTP answers a caller that takes this port for that of HTTP.
func (c *conn) answerHTTP() {
	c.s.teller.Tell(c.rw, wrongport.BadRequest("This port speaks RESP, the protocol of Redis clients. HTTP is at "+c.s.opt.HTTP+"\n"))
	c.quit = true
}

// do does the command in rd.args.
func (c *conn) do() {
	args := c.rd.args
	name := c.rd.arg(args[0])
	cmd := c.s.find(name)
	c.wr.code = ""
	switch {
	case cmd == nil:
		c.unknown(name, args[1:])
		return
	case c.multi && !cmd.endsMulti:
		c.wr.fail("ERR this server has no transactions: nothing between MULTI and EXEC is done; send the commands without these, in a pipeline")
	case cmd.arity > 0 && len(args) != cmd.arity || len(args) < -cmd.arity:
		c.wr.fail("ERR wrong number of arguments for '" + strings.ToLower(cmd.name) + "' command")
	case !c.may(cmd.scope):
	case cmd.merges && len(args) == 3:
		c.merge(cmd)
		return
	default:
		cmd.run(c, args[1:])
	}
	c.count(cmd, 1)
}

func (c *conn) count(cmd *command, n int) {
	if c.wr.code == "" {
		c.s.metrics.byName[cmd.name].Add(float64(n))
		return
	}
	c.s.metrics.commands.WithLabelValues(cmd.name, "error").Add(float64(n))
}

// unknown answers a command that does not exist, or one of HTTP.
func (c *conn) unknown(name []byte, args []scan.Span) {
	if len(args) == 2 && bytes.HasPrefix(c.rd.arg(args[1]), []byte("HTTP/")) {
		c.answerHTTP()
		return
	}
	var begins strings.Builder
	for _, a := range args[:min(len(args), 8)] {
		begins.WriteString("'" + shortened(c.rd.arg(a)) + "' ")
	}
	c.wr.fail("ERR unknown command '" + shortened(name) + "', with args beginning with: " + begins.String())
}

func shortened(text []byte) string { return string(text[:min(len(text), 64)]) }

// merge does a command of one item together with those like it, for the same filter, that the
// client has sent after it without waiting: as one batch, in their order. If it fails, each is
// done by itself, so that each gets its own answer, unless some of the items may be remembered: asked
// once more, these would be called seen.
func (c *conn) merge(cmd *command) {
	first := c.rd.args
	name, key := c.rd.arg(first[0]), c.rd.arg(first[1])
	c.spans = append(c.spans[:0], first[2])
	for len(c.spans) < min(maxMerged, c.s.opt.Limits.Items) {
		ok, err := c.rd.next()
		if err != nil || !ok { // an error is found again
			break
		}
		a := c.rd.args
		if len(a) != 3 || !bytes.Equal(c.rd.arg(a[0]), name) || !bytes.Equal(c.rd.arg(a[1]), key) {
			c.ahead = true
			break
		}
		c.spans = append(c.spans, a[2])
	}
	all := c.spans
	if len(all) == 1 {
		cmd.each(c, key, all)
		c.count(cmd, 1)
		return
	}
	before := len(c.wr.out)
	cmd.each(c, key, all)
	switch c.wr.code {
	case "":
		c.count(cmd, len(all))
		return
	case problem.OutcomeUnknown, problem.Internal:
		failure := c.wr.out[before:]
		for range all[1:] {
			c.wr.out = append(c.wr.out, failure...)
		}
		c.count(cmd, len(all))
		return
	}
	c.wr.out = c.wr.out[:before]
	for i := range all {
		c.wr.code = ""
		cmd.each(c, key, all[i:i+1])
		c.count(cmd, 1)
	}
}

// judge finds out which items are new, and leaves the answer in c.work. It answers errors.
func (c *conn) judge(op batch.Op, key []byte, at []scan.Span, how terms) bool {
	err := c.tryJudge(op, key, at, how)
	if err != nil {
		c.error(err)
	}
	return err == nil
}

// terms are what commands may say besides the items.
type terms struct {
	family string // of the filter; "": any
	expire batch.Expire
	batch.Terms
}

func (c *conn) tryJudge(op batch.Op, key []byte, at []scan.Span, how terms) error {
	name := c.filter
	if name != string(key) {
		name, c.filter = string(key), shortened(key) // no filter's name is longer, and it is kept
	}
	if err := c.checkItems(at); err != nil {
		return err
	}
	if err := refuseID(key); err != nil {
		return err
	}
	if n := int64(len(at)) * batch.ItemBytes; len(at) > maxMerged && n > c.items {
		if !c.hold(n - c.items) {
			return &problem.Error{Code: problem.Overloaded, Detail: errBudget.Error()}
		}
		c.items = n
	}
	c.work.Terms = how.Terms
	if err := c.s.opt.Judge.Begin(c.s.ctx, &c.work, op, name, how.expire); err != nil {
		return err
	}
	if how.family != "" && c.family(c.work.Filter) != how.family {
		return errWrongType
	}
	c.list.Strings(c.rd.buf, at)
	return c.s.opt.Judge.Apply(c.s.ctx, &c.work, &c.list)
}

func (c *conn) checkItems(at []scan.Span) error {
	if len(at) > c.s.opt.Limits.Items {
		return &items.Error{Code: items.TooManyItems, Index: -1, Offset: -1, Detail: "the limit of a command is limits.items"}
	}
	for i, a := range at {
		switch n := int(a.End - a.Start); {
		case n == 0:
			return &items.Error{Code: items.EmptyItem, Index: i, Offset: -1}
		case n > c.s.opt.Limits.ItemBytes:
			return &items.Error{Code: items.ItemTooLarge, Index: i, Offset: -1, Detail: "the limit of an item is limits.item_bytes"}
		}
	}
	return nil
}

// errWrongType is for a filter of another kind than the command is for.
var errWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")

// error answers an error of the inner packages.
func (c *conn) error(err error) {
	switch {
	case errors.Is(err, errAnswered):
		return
	case errors.Is(err, errWrongType):
		c.wr.fail(errWrongType.Error())
		return
	}
	p := problem.Of(err)
	if p.Code == problem.Internal || p.Code == "" {
		c.s.opt.Log.Error("command failed", "filter", c.filter, "err", err)
	}
	c.wr.fail(problem.RESP(p))
	c.wr.code = cmp.Or(p.Code, problem.Internal)
}

// may reports whether the client may give a command that needs the scope; it answers if not.
func (c *conn) may(scope string) bool {
	switch {
	case scope == "" || !c.s.opt.Access.AsksTokens():
		return true
	case c.secret == "":
		c.wr.fail("NOAUTH Authentication required.")
		return false
	case time.Since(c.asked) > knownFor:
		clear(c.scopes)
		c.asked = time.Now()
	}
	if c.scopes[scope] {
		return true
	}
	if _, err := c.s.opt.Access.Token(c.call(scope), c.secret); err != nil {
		if p := problem.Of(err); p.Code == problem.Forbidden {
			c.wr.fail("NOPERM " + p.Detail)
		} else {
			c.logOut()
			c.wr.fail("NOAUTH the token is not known any more: log in again")
		}
		return false
	}
	c.scopes[scope] = true
	return true
}

// call is how the guard and its log see a command.
func (c *conn) call(scope string) access.Call {
	return access.Call{Request: &http.Request{Method: "RESP", RemoteAddr: c.raw.RemoteAddr().String()}, Path: "resp", Scope: scope}
}

// word reports whether an argument is a keyword.
func (c *conn) word(a scan.Span, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return bytes.EqualFold(c.rd.arg(a), []byte(w)) })
}

func (c *conn) str(a scan.Span) string { return string(c.rd.arg(a)) }
