package testserver

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Cutter passes connections on to a server, and breaks them so that requests arrive and answers do
// not. Its methods may be called by several goroutines.
type Cutter struct {
	Addr string

	mu   sync.Mutex
	left int // bytes of answers that still pass, all connections together; -1: all
	once bool
	cuts int
}

// NewCutter returns a Cutter in front of the server at that address. It passes everything at
// first.
func NewCutter(t testing.TB, to string) *Cutter {
	t.Helper()
	c := &Cutter{left: -1}
	c.Addr = Front(t, to, func(client, server net.Conn) {
		var requests sync.WaitGroup
		requests.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
		c.answers(client, server)
		requests.Wait()
	})
	return c
}

// Cut lets that many bytes of answers pass, over all connections together. After that it breaks
// every connection on which an answer comes, until Pass is called.
func (c *Cutter) Cut(bytes int) { c.set(bytes, false) }

// CutOnce is Cut for the first such connection only.
func (c *Cutter) CutOnce(bytes int) { c.set(bytes, true) }

// Pass lets everything pass again.
func (c *Cutter) Pass() { c.set(-1, false) }

func (c *Cutter) set(bytes int, once bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.once = bytes, once
}

// Cuts returns how many connections were broken.
func (c *Cutter) Cuts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

// pass returns how many of n bytes may pass, and whether the connection breaks then.
func (c *Cutter) pass(n int) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.left < 0:
		return n, false
	case n <= c.left:
		c.left -= n
		return n, false
	}
	n, c.left = c.left, 0
	if c.once {
		c.left = -1
	}
	c.cuts++
	return n, true
}

func (c *Cutter) answers(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 4096)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		n, cut := c.pass(n)
		if _, err := client.Write(buf[:n]); err != nil || cut {
			return
		}
	}
}
