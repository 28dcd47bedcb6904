package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/body"
)

// hop is one request of a walk and its answer.
type hop struct {
	w      *walk
	ctx    context.Context // ends with the walk, or by cancel; its cause says why
	cancel context.CancelCauseFunc
	pinned netip.Addr // the target, checked here; for a proxy only

	timer *time.Timer // ends the hop when it fires

	mu      sync.Mutex // guards the fields below: goroutines of net/http make connections
	at      stage
	toProxy bool     // the connection to the proxy is established
	undo    []func() // cancel connection attempts that still run
	over    bool     // the hop has failed
	tries   int      // connections that the request was sent over
	sent    bool     // it may have reached the server
	address string
}

// maxTries is on how many connections a request is sent. net/http sends it again when the server
// had closed a kept connection, but also, endlessly, when an HTTP/2 server answers that the
// request is a PROTOCOL_ERROR.
const maxTries = 4

type hopKey struct{}

func newHop(w *walk, ctx context.Context) *hop {
	ctx, cancel := context.WithCancelCause(ctx)
	h := &hop{w: w, cancel: cancel}
	h.ctx = httptrace.WithClientTrace(context.WithValue(ctx, hopKey{}, h), h.trace())
	return h
}

// arm ends the hop for that reason if nothing happens for d.
func (h *hop) arm(reason Reason, d time.Duration) {
	if h.timer != nil {
		h.timer.Stop()
	}
	h.timer = time.AfterFunc(d, func() { h.cancel(&stop{reason, fmt.Sprintf("nothing for %s", d)}) })
}

// send sends the request and waits for the header of the answer.
func (h *hop) send() (*http.Response, *Error) {
	h.mu.Lock()
	h.arm(TimeoutConnect, h.w.r.Connect)
	h.mu.Unlock()
	answer, err := h.exchange()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		return nil, h.failed(err)
	}
	h.at = reading
	return answer, nil
}

func (h *hop) exchange() (*http.Response, error) {
	w := h.w
	if err := w.f.guard.Port(w.at.Port); err != nil {
		return nil, err
	}
	if w.at.Addr.IsValid() {
		if err := w.f.guard.Address(w.at.Addr); err != nil {
			return nil, err
		}
	}
	r, err := w.f.route(w.proxy)
	if err != nil {
		return nil, err
	}
	if w.proxy != nil {
		if err := h.pin(); err != nil {
			return nil, err
		}
	}
	q, err := w.request(h.ctx, r.whole && w.at.Scheme == "http")
	if err != nil {
		return nil, err
	}
	answer, err := r.transport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	switch {
	case answer.StatusCode == http.StatusSwitchingProtocols:
		_ = answer.Body.Close()
		return nil, &stop{BadResponse, "the host wants to speak another protocol"}
	case answer.StatusCode == http.StatusProxyAuthRequired && r.whole && w.at.Scheme == "http":
		_ = answer.Body.Close()
		return nil, &proxyError{err: statusError(answer.StatusCode)}
	}
	return answer, nil
}

// pin resolves the target and checks all its addresses, before a proxy gets to know it.
func (h *hop) pin() error {
	if h.pinned = h.w.at.Addr; h.pinned.IsValid() {
		return nil
	}
	addrs, err := h.w.f.o.Resolver.LookupNetIP(h.ctx, "ip", h.w.at.Host)
	if err != nil {
		return err
	}
	for _, addr := range addrs {
		if err := h.w.f.guard.Address(addr); err != nil {
			return err
		}
		h.pinned = addrs[0]
	}
	return nil
}

// failed returns the reason of an error; h.mu is held.
func (h *hop) failed(err error) *Error {
	h.timer.Stop()
	h.over = true
	h.endConnecting()
	reason, err := classify(h.ctx, h.at, err)
	if reason == TimeoutConnect && h.w.proxy != nil && !h.toProxy {
		reason = Proxy
	}
	return failure(reason, h.w.at.String(), err)
}

// endConnecting cancels running connection attempts; h.mu is held.
func (h *hop) endConnecting() {
	for _, end := range h.undo {
		end()
	}
	h.undo = nil
}

// read reads the body of an answer.
func (h *hop) read(answer *http.Response) (*body.Body, *Error) {
	defer h.timer.Stop()
	defer answer.Body.Close() //nolint:errcheck // all of it has arrived, or there is an error already
	sent := h.wire(answer)
	kept, err := h.decode(answer, sent)
	if err == nil {
		h.rest(sent)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if sent.err != nil && sent.err != io.EOF {
			err = sent.err // rather than the error that a decoder makes of it
		}
		return nil, h.failed(err)
	}
	h.endConnecting()
	return kept, nil
}

func (h *hop) decode(answer *http.Response, sent *wire) (*body.Body, error) {
	if answer.ContentLength > h.w.r.BodyLimit && h.w.method != http.MethodHead && !h.w.r.Truncate {
		return nil, fmt.Errorf("%w: %d bytes are announced, the limit is %d", body.ErrTooLarge, answer.ContentLength, h.w.r.BodyLimit)
	}
	var codings string
	for i, value := range answer.Header.Values("Content-Encoding") {
		if codings += value; i >= 4 || len(codings) > 100 {
			return nil, &body.CodingError{Coding: codings, Err: errors.New("too many codings")}
		}
		codings += ","
	}
	plain, err := body.Decode(sent, codings)
	if err != nil {
		return nil, err
	}
	defer plain.Close() //nolint:errcheck // never fails
	var from io.Reader = plain
	if h.w.r.Truncate {
		from = io.LimitReader(plain, h.w.r.BodyLimit)
	}
	kept, err := h.w.f.store.Keep(from, h.w.r.BodyLimit)
	if errors.Is(err, body.ErrTooLarge) {
		err = fmt.Errorf("%w of %d bytes", body.ErrTooLarge, h.w.r.BodyLimit)
	}
	return kept, err
}

// rest reads what follows a compressed body, so that the connection can be reused.
func (h *hop) rest(sent *wire) {
	_, _ = io.CopyN(io.Discard, sent, 16<<10)
}

// shortBody is how much is read of the body of an answer that redirects, and shortTime how long it is waited for: some
// servers announce a body that never comes, and browsers follow the redirect nonetheless.
const (
	shortBody = 16 << 10
	shortTime = 2 * time.Second
)

// leave drops an answer whose body is not needed. It returns a short one, if that is wanted.
func (h *hop) leave(answer *http.Response, wanted bool) (short []byte) {
	sent := h.wire(answer)
	defer time.AfterFunc(shortTime, func() { h.cancel(nil) }).Stop()
	if plain, err := body.Decode(sent, answer.Header.Get("Content-Encoding")); wanted && err == nil {
		if short, err = io.ReadAll(io.LimitReader(plain, shortBody+1)); err != nil || len(short) > shortBody {
			short = nil
		}
		_ = plain.Close()
	}
	h.rest(sent)
	_ = answer.Body.Close()
	h.timer.Stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endConnecting()
	return short
}

func (h *hop) remote() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.address
}

// waitToResend waits until a request that was sent may be sent once more, over another connection.
func (h *hop) waitToResend(conn net.Conn) {
	h.mu.Lock()
	wait := h.sent && h.at != reading && h.w.r.Again != nil
	if wait {
		h.timer.Stop()
		h.sent = false
	}
	h.mu.Unlock()
	if !wait {
		return
	}
	defer h.w.whole.Pause()()
	if err := h.w.r.Again(h.ctx, h.w.at.String()); err != nil {
		h.cancel(err)
		// HTTP/1 writes on the connection that it got, and checks for cancellation meanwhile; HTTP/2 shares it.
		if over, is := conn.(*tls.Conn); !is || over.ConnectionState().NegotiatedProtocol != "h2" {
			_ = conn.Close()
		}
	}
}

// trace records how far the hop is. net/http calls it from several goroutines.
func (h *hop) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		WroteHeaders: func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.sent = true
		},
		GotConn: func(info httptrace.GotConnInfo) {
			if conn, is := info.Conn.(*lenientConn); is {
				conn.begin()
			}
			h.waitToResend(info.Conn)
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.at == reading {
				return
			}
			if h.tries++; h.tries > maxTries {
				h.cancel(&stop{BadResponse, fmt.Sprintf("the request was refused on %d connections", maxTries)})
			}
			h.at, h.undo, h.address = asking, nil, info.Conn.RemoteAddr().String()
			h.arm(TimeoutRead, h.w.r.Read)
		},
	}
}

// wire is a body as it is sent: bounded, and at least as fast as the least rate.
type wire struct {
	r     io.Reader
	h     *hop
	bytes int64
	err   error // once there was one

	began time.Time // start of the window for which the rate is checked
	had   int64     // bytes at the start of the window
}

func (h *hop) wire(answer *http.Response) *wire {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arm(TimeoutRead, h.w.r.Read)
	return &wire{r: answer.Body, h: h, began: h.w.f.o.Now()}
}

func (w *wire) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.r.Read(p)
	w.h.timer.Reset(w.h.w.r.Read)
	if w.bytes += int64(n); err == nil {
		err = w.check()
	}
	w.err = err
	return n, err
}

func (w *wire) check() error {
	r := &w.h.w.r
	if w.bytes > r.BodyLimit {
		return fmt.Errorf("%w of %d bytes", body.ErrTooLarge, r.BodyLimit)
	}
	now := w.h.w.f.o.Now()
	passed := now.Sub(w.began)
	if passed < RateWindow {
		return nil
	}
	if got := w.bytes - w.had; float64(got) < passed.Seconds()*float64(r.MinRate) {
		return &stop{TooSlow, fmt.Sprintf("%d bytes in %s, want %d a second at least", got, passed.Round(time.Second), r.MinRate)}
	}
	w.began, w.had = now, w.bytes
	return nil
}

// MaxRetryAfter is the longest time that is accepted from a Retry-After.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter reads a Retry-After header, which is a number of seconds or a date. The result is
// between 0 and MaxRetryAfter; false: the header is missing or invalid.
func RetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value == "" || len(value) > 100 {
		return 0, false
	}
	if digits := strings.TrimLeft(value, "0123456789"); digits == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(0, date.Sub(now)), MaxRetryAfter), true
}
