//go:build unix

package chaos

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// proxy forwards connections to a server, and is where links break. Its address stays the same
// when the server is restarted.
type proxy struct {
	*testserver.Relay
	rnd *rand.Rand // of cuts; guarded by mu

	mu    sync.Mutex
	delay time.Duration // of each piece
	cuts  bool          // connections break after some bytes of answers
	open  chan struct{} // closed unless the link is interrupted
}

// newProxy listens on a free port of host and forwards to the server that dial connects to.
func newProxy(host string, dial func() (net.Conn, error), seed uint64) (p *proxy, err error) {
	p = &proxy{rnd: rand.New(rand.NewPCG(seed, 1)), open: make(chan struct{})}
	close(p.open)
	p.Relay, err = testserver.NewRelay(host, func() (net.Conn, error) { <-p.gate(); return dial() }, p.serve)
	return p, err
}

func (p *proxy) serve(c, s net.Conn) {
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

func (p *proxy) setDelay(d time.Duration) { p.mu.Lock(); p.delay = d; p.mu.Unlock() }
func (p *proxy) setCuts(on bool)          { p.mu.Lock(); p.cuts = on; p.mu.Unlock() }

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
	p.resume()
	p.Close()
}
