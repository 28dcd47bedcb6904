package drain

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// late is a listener whose connections pass on what they have received when pass is closed.
type late struct {
	net.Listener
	received, pass chan struct{}
}

type lateConn struct {
	*net.TCPConn
	late *late
}

func (l *late) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateConn{c.(*net.TCPConn), l}, nil
}

func (c *lateConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 {
		c.late.received <- struct{}{}
		<-c.late.pass
	}
	return n, err
}

// A request that crosses the close of its connection has no answer, not even a refusal: its client
// sees the end of the connection, and may send it again.
func TestRequestCrossesTheClose(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &late{inner, make(chan struct{}, 10), make(chan struct{})}
	r := newRigOn(t, l, nil)
	c := r.dial()
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
	<-l.received
	cut := r.drainNow(time.Millisecond, time.Minute)
	for open := r.drain.open(); len(open) > 0 && open[0].state.Load() != closing; {
		time.Sleep(time.Millisecond)
	}
	close(l.pass)
	if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
		t.Errorf("the client gets %q, %v", got, err)
	}
	_ = c.Close()
	if n := <-cut; n != 0 {
		t.Errorf("%d connections cut, want none", n)
	}
	if n := r.done.Load(); n != 0 {
		t.Errorf("%d requests carried out", n)
	}
	unread := &conn{}
	unread.state.Store(closing)
	var timeout net.Error
	if _, err := unread.Read(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a Read that begins later: %v", err)
	}
}
