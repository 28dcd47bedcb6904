package testserver

import (
	"net"
	"sync"
	"testing"
)

// Front listens at addr in front of the server at the address to, until t ends. Each connection is
// for pass, with one to the server; both are closed when pass returns, and at the end.
func Front(t testing.TB, to string, pass func(client, server net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	conns := map[net.Conn]bool{} // nil at the end
	var work sync.WaitGroup
	serve := func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		mu.Lock()
		ended := conns == nil
		if !ended {
			conns[client] = true
		}
		mu.Unlock()
		if ended {
			return
		}
		pass(client, server)
		mu.Lock()
		delete(conns, client)
		mu.Unlock()
	}
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for client := range conns {
			_ = client.Close()
		}
		conns = nil
		mu.Unlock()
		work.Wait()
	})
	return l.Addr().String()
}
