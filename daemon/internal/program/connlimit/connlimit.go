// Package connlimit bounds the open connections of a server, in total and per address, so that a
// caller that opens very many leaves room for others, and file descriptors for the store.
//
// Connections are always accepted. A connection beyond a limit gets a complete HTTP/1.1 answer
// of 503, and is closed; with TLS, where any answer would need a handshake, it is only closed.
// To stop accepting would be worse: callers would wait without knowing why, and the operator's
// own calls would wait with them. Connections from this machine (loopback, Unix sockets) have no
// limit per address, because they may come from a proxy or a tunnel for many, and may exceed the
// total limit by a few, for health checks.
//
// The package reads no requests and does not handle idle connections: net/http ends those.
package connlimit

import (
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/program/caller"
	"github.com/cr-clawer/urifilter/daemon/internal/program/wrap"
)

const (
	// reserve is how many connections from this machine may exceed the total limit.
	reserve = 16
	// A refused connection stays open for a moment, so that its end does not overtake the
	// answer. At most this many do so at a time; others are closed at once.
	refusedLinger = time.Second
	maxLingering  = 64
	// logEvery is the least time between two logged refusals.
	logEvery = time.Minute
)

// The limits by name.
const (
	limitAll     = "all"
	limitAddress = "address"
)

// refusal begins the answer to a connection beyond a limit.
const refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: "

// Options are the limits.
type Options struct {
	All        int // 0: no limit
	PerAddress int // IPv6 counts by /64 networks, as one caller has all of one; 0: half of All
	// Answer is the body of the 503, a problem in JSON; Plain says that it is the whole answer, of
	// a protocol other than HTTP.
	Answer []byte
	Plain  bool
	Log    *slog.Logger
}

// Limiter counts the connections of several listeners together. It is safe for
// concurrent use.
type Limiter struct {
	opt       Options
	answer    []byte
	lingering atomic.Int32
	refused   *prometheus.CounterVec

	mu     sync.Mutex
	open   int
	byAddr map[netip.Addr]int // connections limited per address
	logged time.Time
	untold int // refusals not logged since then
}

// New makes a Limiter and registers its metrics, to whose names the registry adds the
// program's name as a prefix.
func New(opt Options, registry prometheus.Registerer) *Limiter {
	if opt.PerAddress == 0 {
		opt.PerAddress = (opt.All + 1) / 2
	}
	m := &Limiter{
		opt: opt, answer: opt.Answer, byAddr: map[netip.Addr]int{},
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "connections_refused_total",
			Help: "Connections that were closed because of a limit: all or address.",
		}, []string{"limit"}),
	}
	if !opt.Plain {
		m.answer = append([]byte(refusal+strconv.Itoa(len(opt.Answer))+"\r\n\r\n"), opt.Answer...)
	}
	for _, limit := range []string{limitAll, limitAddress} {
		m.refused.WithLabelValues(limit) // so that a first refusal shows as a step
	}
	registry.MustRegister(m.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "connections", Help: "Connections that are open.",
	}, func() float64 { return float64(m.Open()) }))
	return m
}

// Open returns the number of open connections.
func (m *Limiter) Open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// Listener limits the connections of l; encrypted says that TLS will be put on it.
func (m *Limiter) Listener(l net.Listener, encrypted bool) net.Listener {
	return wrap.Listener(l, func(c net.Conn) net.Conn {
		addr := boundBy(c.RemoteAddr())
		if limit := m.admit(addr); limit != "" {
			m.refuse(c, limit, encrypted)
			return nil
		}
		return &conn{wrap.Conn{Conn: c}, sync.OnceFunc(func() { m.give(addr) })}
	})
}

// conn is a connection that is counted until it is closed.
type conn struct {
	wrap.Conn
	free func()
}

func (c *conn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

// boundBy returns the key by which the connections of a caller are counted; invalid for this machine.
func boundBy(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return caller.Elsewhere(tcp.AddrPort().Addr())
}

// admit counts a connection, or names the limit that it exceeds.
func (m *Limiter) admit(addr netip.Addr) (limit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.opt.All
	if !addr.IsValid() {
		all += reserve
	}
	switch {
	case m.opt.All > 0 && m.open >= all:
		return limitAll
	case addr.IsValid() && m.opt.PerAddress > 0 && m.byAddr[addr] >= m.opt.PerAddress:
		return limitAddress
	}
	m.open++
	if addr.IsValid() {
		m.byAddr[addr]++
	}
	return ""
}

func (m *Limiter) give(addr netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	if !addr.IsValid() {
		return
	}
	if m.byAddr[addr]--; m.byAddr[addr] == 0 {
		delete(m.byAddr, addr)
	}
}

// refuse answers a connection beyond a limit, and closes it.
func (m *Limiter) refuse(c net.Conn, limit string, encrypted bool) {
	m.refused.WithLabelValues(limit).Inc()
	m.logRefusal(c, limit)
	half, ok := c.(interface{ CloseWrite() error })
	if encrypted || !ok || m.lingering.Add(1) > maxLingering {
		if !encrypted && ok {
			m.lingering.Add(-1)
		}
		_ = c.Close()
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(refusedLinger)) // the first bytes of a connection need no waiting
	_, _ = c.Write(m.answer)
	_ = half.CloseWrite()
	time.AfterFunc(refusedLinger, func() {
		_ = c.Close()
		m.lingering.Add(-1)
	})
}

func (m *Limiter) logRefusal(c net.Conn, limit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.untold++
	if now := time.Now(); now.Sub(m.logged) >= logEvery {
		m.logged = now
		m.opt.Log.Warn("connections refused: limits.connections or limits.connections_per_address is reached",
			"limit", limit, "remote", c.RemoteAddr().String(), "refused", m.untold, "open", m.open)
		m.untold = 0
	}
}
