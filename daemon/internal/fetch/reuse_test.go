package fetch

import (
	"net/http"
	"sync"
	"testing"
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
