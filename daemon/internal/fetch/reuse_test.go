package fetch

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
)

// As many connections to a host are kept as were used at once: the next requests open no new ones.
// A few may be new: net/http drops a connection if, after the answer, the goroutine that wrote the
// request does not say within 50 ms that it is done, as happens on a busy machine.
func TestConnectionsOfAHostAreKept(t *testing.T) {
	const together = maxIdlePerHost
	var mu sync.Mutex
	from := map[string]bool{}
	var arrived sync.WaitGroup
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from[r.RemoteAddr] = true
		mu.Unlock()
		arrived.Done()
		arrived.Wait() // until all of them are under way
		_, _ = w.Write([]byte("page"))
	})
	f := fetcher(t, Options{})
	for range 3 {
		arrived.Add(together)
		var asking sync.WaitGroup
		for range together {
			asking.Go(func() {
				if _, _, e := get(t, f, Request{URI: s.URL}); e != nil {
					t.Error(e)
				}
			})
		}
		asking.Wait()
		if len(from) < together || len(from) > together+together/10 {
			t.Fatalf("%d connections, want %d", len(from), together)
		}
	}
}

// A connection of HTTP/2 whose other end has gone without a word, as behind a router that has forgotten it, is given up:
// the next request gets another one.
func TestSilentConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	authority := certtest.New(t, "authority")
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	s.EnableHTTP2 = true
	s.TLS = certificate(t, authority.Issue(t, "server", time.Hour, "127.0.0.1"))
	s.StartTLS()
	t.Cleanup(s.Close)
	var made atomic.Int64
	var gone atomic.Bool // of the first connection
	way, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	go func() {
		for {
			from, err := way.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			first := made.Add(1) == 1
			pass := func(to, from net.Conn) {
				part := make([]byte, 32<<10)
				for {
					n, err := from.Read(part)
					if err != nil {
						_ = to.Close()
						return
					}
					if !first || !gone.Load() {
						_, _ = to.Write(part[:n])
					}
				}
			}
			go pass(to, from)
			go pass(from, to)
		}
	}()
	// A working connection must answer within that time, too, however busy the machine is.
	f := fetcher(t, Options{Roots: authority.Roots(), Silence: 3 * time.Second})
	r := Request{URI: "https://" + way.Addr().String() + "/"}
	if _, text, e := get(t, f, r); e != nil || text != "HTTP/2.0" {
		t.Fatalf("%q, %v", text, e)
	}
	gone.Store(true)
	if _, _, e := get(t, f, r); e == nil || e.Reason != ConnectionLost {
		t.Errorf("over the connection that is gone: %v", e)
	}
	if _, text, e := get(t, f, r); e != nil || text != "HTTP/2.0" || made.Load() != 2 {
		t.Errorf("the next one: %q, %v, over connection %d", text, e, made.Load())
	}
}
