package remote

import (
	"net"
	"sync"
	"testing"
)

// proxy stands between us and a server.
type proxy struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
	sent     int64 // to the server
	cutAfter int64 // bytes to the server after which it cuts; 0: never
	hung     bool  // forwards nothing any more
	drops    int   // connections to drop before the first byte
	taken    int
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) port() int { return p.listener.Addr().(*net.TCPAddr).Port }

func (p *proxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.taken++
		drop := p.taken <= p.drops
		p.mu.Unlock()
		if drop {
			near.Close()
			continue
		}
		far, err := net.Dial("tcp", p.to)
		if err != nil {
			near.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, near, far)
		p.mu.Unlock()
		p.wg.Go(func() { p.pump(near, far, true) })
		p.wg.Go(func() { p.pump(far, near, false) })
	}
}

func (p *proxy) pump(from, to net.Conn, up bool) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		if up {
			p.sent += int64(n)
		}
		hung, cut := p.hung, p.cutAfter > 0 && p.sent > p.cutAfter
		p.mu.Unlock()
		if cut {
			p.cut()
			return
		}
		if hung {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut ends the connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

func (p *proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}
