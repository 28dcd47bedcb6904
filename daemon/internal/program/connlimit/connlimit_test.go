package connlimit

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func newLimiter(all, perAddress int) *Limiter {
	return New(Options{All: all, PerAddress: perAddress, Answer: []byte("{}\n"), Log: slog.New(slog.DiscardHandler)}, prometheus.NewRegistry())
}

// serve answers requests on a listener that m bounds.
func serve(t *testing.T, m *Limiter, l net.Listener) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(m.Listener(l, false))
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
}

// counted returns the sum of a counter's series.
func counted(t *testing.T, c prometheus.Collector) (sum float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.Metric {
			sum += metric.GetCounter().GetValue()
		}
	}
	return sum
}

func dial(t *testing.T, a net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial(a.Network(), a.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request and returns the status and body of the answer.
func ask(t *testing.T, c net.Conn) (status int, body string) {
	t.Helper()
	// A refused connection may be closed before the whole request is sent.
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Beyond the limit a connection is told so; when another ends, there is room again.
func TestOnePastTheLimitIsTold(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = filepath.Join(t.TempDir(), "s")
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		const all = 3
		m := newLimiter(all, 1)
		serve(t, m, l)
		var open []net.Conn
		for i := range all + reserve { // from this machine: may exceed the limit, and has none per address
			c := dial(t, l.Addr())
			if status, body := ask(t, c); status != 200 || body != "served" {
				t.Fatalf("%s: connection %d: %d %s", network, i, status, body)
			}
			open = append(open, c)
		}
		for i := range 3 {
			if status, body := ask(t, dial(t, l.Addr())); status != 503 || body != "{}\n" {
				t.Errorf("%s: connection %d past the limit: %d %s", network, i, status, body)
			}
		}
		if got := counted(t, m.refused); got != 3 {
			t.Errorf("%s: refused: %v, want 3", network, got)
		}
		if status, _ := ask(t, open[0]); status != 200 {
			t.Errorf("%s: a connection that was open already: %d", network, status)
		}
		open[0].Close()
		for m.Open() == all+reserve { // until the server has seen it
			time.Sleep(time.Millisecond)
		}
		if status, _ := ask(t, dial(t, l.Addr())); status != 200 {
			t.Errorf("%s: after one was closed: %d", network, status)
		}
	}
}

func TestLimitPerAddress(t *testing.T) {
	half, elsewhere := newLimiter(3, 0), netip.MustParseAddr("192.0.2.1")
	if got := []string{half.admit(elsewhere), half.admit(elsewhere), half.admit(elsewhere)}; got[1] != "" || got[2] != "address" {
		t.Errorf("three of one address, where half of three may be: %q", got)
	}
	m := newLimiter(100, 2)
	for i, step := range []struct{ addr, want string }{
		{"192.0.2.1", ""}, {"192.0.2.1", ""}, {"192.0.2.1", "address"}, {"192.0.2.2", ""},
		{"::ffff:192.0.2.2", ""}, {"192.0.2.2", "address"},
		{"2001:db8::1", ""}, {"2001:db8::ffff:2", ""}, {"2001:db8::3", "address"}, {"2001:db8:0:1::1", ""},
		{"127.0.0.1", ""}, {"127.0.0.1", ""}, {"127.0.0.1", ""}, {"::1", ""}, {"::1", ""}, {"::1", ""},
	} {
		if got := m.admit(boundBy(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(step.addr), 1)))); got != step.want {
			t.Errorf("step %d, %s: got %q, want %q", i, step.addr, got, step.want)
		}
	}
	m.give(netip.MustParseAddr("192.0.2.1"))
	if got := m.admit(netip.MustParseAddr("192.0.2.1")); got != "" {
		t.Errorf("after one was given back: %q", got)
	}
}

// Unlimited and ended connections leave nothing behind.
func TestNothingIsLeftBehind(t *testing.T) {
	m := newLimiter(0, 0)
	for i := range 1000 {
		addr := netip.MustParseAddr(fmt.Sprintf("192.0.%d.%d", i/250, i%250))
		for range 10 {
			if limit := m.admit(addr); limit != "" {
				t.Fatalf("refused by %s", limit)
			}
		}
	}
	for i := range 1000 {
		for range 10 {
			m.give(netip.MustParseAddr(fmt.Sprintf("192.0.%d.%d", i/250, i%250)))
		}
	}
	if m.Open() != 0 || len(m.byAddr) != 0 {
		t.Errorf("%d connections of %d addresses are left", m.Open(), len(m.byAddr))
	}
}

// Behind TLS a refused connection is closed without a word.
func TestRefusedBehindTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := newLimiter(1, 0)
	m.open = 1 + reserve
	accepted := make(chan error, 1)
	go func() {
		_, err := m.Listener(l, true).Accept()
		accepted <- err
	}()
	if text, err := io.ReadAll(dial(t, l.Addr())); err != nil || len(text) > 0 {
		t.Errorf("got %q, %v", text, err)
	}
	l.Close()
	if err := <-accepted; err == nil {
		t.Error("it was accepted")
	}
}
