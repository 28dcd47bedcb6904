//go:build unix

package chaos

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// proxy forwards connections to a server, and is where links break. Its address stays the same
// when the server is restarted.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error) // the server
	work     sync.WaitGroup
	rnd      *rand.Rand // of cuts; guarded by mu

	mu    sync.Mutex
	conns map[net.Conn]bool
	delay time.Duration // of each piece
	cuts  bool          // connections break after some bytes of answers
	open  chan struct{} // closed unless the link is interrupted
	ended bool
}

// newProxy listens on a free port of host and forwards to the server that dial connects to.
func newProxy(host string, dial func() (net.Conn, error), seed uint64) (*proxy, error) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, dial: dial, rnd: rand.New(rand.NewPCG(seed, 1)), conns: map[net.Conn]bool{}, open: make(chan struct{})}
	close(p.open)
	p.work.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(c) })
	}
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	<-p.gate()
	s, err := p.dial()
	if err != nil {
		return
	}
	defer s.Close()
	if !p.keep(c, s) {
		return
	}
	defer p.forget(c, s)
	var both sync.WaitGroup
	both.Go(func() { p.pass(s, c, false) })
	both.Go(func() { p.pass(c, s, true) })
	both.Wait()
}

// pass copies one direction until either end closes, and then closes both.
func (p *proxy) pass(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	left := -1
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			delay, cut := p.state()
			if delay > 0 {
				time.Sleep(delay) // the fault itself
			}
			<-p.gate()
			if cut && answers && left < 0 {
				left = p.cutAfter()
			}
			if left >= 0 && left < n {
				_, _ = to.Write(buf[:left])
				return
			}
			if left >= 0 {
				left -= n
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) gate() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

func (p *proxy) state() (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay, p.cuts
}

// cutAfter returns how many bytes of answers pass before a connection breaks: often none, so
// that a request is carried out and nothing of its answer arrives.
func (p *proxy) cutAfter() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rnd.IntN(3) == 0 {
		return 0
	}
	return p.rnd.IntN(1 << (4 + p.rnd.IntN(14)))
}

func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.ended
}

func (p *proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

func (p *proxy) setDelay(d time.Duration) { p.mu.Lock(); p.delay = d; p.mu.Unlock() }
func (p *proxy) setCuts(on bool)          { p.mu.Lock(); p.cuts = on; p.mu.Unlock() }

// breakAll closes all present connections.
func (p *proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// interrupt holds everything back until resume; what was sent meanwhile then arrives.
func (p *proxy) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
		p.open = make(chan struct{})
	default:
	}
}

func (p *proxy) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.resume()
	p.breakAll()
	p.work.Wait()
}
