package mysqlstore

import (
	"io"
	"net"
	"sync"
	"testing"
)

// cutter passes connections on to a server. Once it is armed, that connection breaks on which so
// many bytes of answers have come since, all connections together.
type cutter struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	left  int // -1: nothing breaks
	cuts  int
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, left: -1}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, client, server)
			c.mu.Unlock()
			work.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			work.Go(func() { c.answers(client, server) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		work.Wait()
	})
	return c
}

func (c *cutter) arm(bytes int) { c.mu.Lock(); defer c.mu.Unlock(); c.left = bytes }

// pass is how many of n bytes may pass, and whether the connection breaks then.
func (c *cutter) pass(n int) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left < 0 {
		return n, false
	}
	if n > c.left {
		n, c.left = c.left, -1
		c.cuts++
		return n, true
	}
	c.left -= n
	return n, false
}

func (c *cutter) answers(client, server net.Conn) {
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
