package redistest

import "testing"

// Pool holds sets of servers that tests take one after the other, because a set takes seconds
// to start. It may be used by several tests at once.
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

// Take waits for a set, which belongs to t until t ends. Its servers are empty, and have the
// settings with which they were started: a test that changes more than data must start its own.
func (p *Pool) Take(t testing.TB) []*Server {
	t.Helper()
	servers := <-p.free
	t.Cleanup(func() { p.free <- servers })
	for _, s := range servers {
		s.CLI("flushall")
	}
	return servers
}
