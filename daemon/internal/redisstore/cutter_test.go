package redisstore

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// cutter is a connection to Redis that can break so that commands arrive and replies do not.
type cutter struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	// left is how many bytes of replies still pass, all connections together.
	left atomic.Int64
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l}
	c.left.Store(1 << 60)
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
			work.Go(func() { c.replies(client, server) })
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

func (c *cutter) replies(client, server net.Conn) {
	defer client.Close()
	buf := make([]byte, 4096)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if left := c.left.Add(-int64(n)); left < 0 {
			_, _ = client.Write(buf[:max(0, n+int(left))])
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}
