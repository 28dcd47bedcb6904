package connlimit

import (
	"net"
	"net/netip"
	"strconv"
	"sync"
)

// counted returns a connection that frees its slot when it is closed. It keeps the methods of the
// two known kinds: closing one half, sending a file without copying.
func (m *Limiter) counted(c net.Conn, addr netip.Addr) net.Conn {
	back := &slot{limiter: m, addr: addr}
	switch c := c.(type) {
	case *net.TCPConn:
		return &tcpConn{TCPConn: c, slot: back}
	case *net.UnixConn:
		return &unixConn{UnixConn: c, slot: back}
	}
	return &otherConn{Conn: c, slot: back}
}

type slot struct {
	limiter *Limiter
	addr    netip.Addr
	once    sync.Once
}

func (s *slot) free() { s.once.Do(func() { s.limiter.give(s.addr) }) }

type tcpConn struct {
	*net.TCPConn
	*slot
}

func (c *tcpConn) Close() error {
	defer c.free()
	return c.TCPConn.Close()
}

type unixConn struct {
	*net.UnixConn
	*slot
}

func (c *unixConn) Close() error {
	defer c.free()
	return c.UnixConn.Close()
}

type otherConn struct {
	net.Conn
	*slot
}

func (c *otherConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}

func answerOf(body []byte) []byte {
	text := refusal + strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(text), body...)
}
