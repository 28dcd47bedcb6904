package redistest

import "testing"

// Pool are sets of servers that tests take one after the other, as a set takes seconds to
// start. It may be used by several tests at once.
type Pool struct{ free chan []*Server }

// NewPool starts n sets, which end with t.
func NewPool(t testing.TB, n int, start func(testing.TB) []*Server) *Pool {
	t.Helper()
	p := &Pool{make(chan []*Server, n)}
	for range n {
		p.free <- start(t)
	}
	return p
}

// Take waits for a set, which is t's until it ends. There is nothing in its servers, and
// their settings are those with which they were started: a test that changes more than
// data starts its own.
func (p *Pool) Take(t testing.TB) []*Server {
	t.Helper()
	servers := <-p.free
	t.Cleanup(func() { p.free <- servers })
	for _, s := range servers {
		s.CLI("flushall")
	}
	return servers
}
