package api

import (
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/embedded"
)

func openEmbedded(t *testing.T, dir string) *embedded.Store {
	t.Helper()
	st, err := embedded.Open(embedded.Options{Dir: dir, Durability: "always", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestOverTheEmbeddedStore(t *testing.T) {
	dir := t.TempDir()
	const body = `{"filter_typeid":1,"uri_list":["a",{"b":1},"a"]}`
	for _, want := range []string{`{"uri_list":["a",{"b":1}],"total":3,"duplicates":1}` + "\n", `{"uri_list":[],"total":3,"duplicates":3}` + "\n"} {
		st := openEmbedded(t, dir)
		r := newRigOver(t, st)
		wantBody(t, r.post("/api/v1/filter", body), want)
		r.http.Close()
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A filter is dropped and made again while streams are in it: each ends whole or cut,
// and the daemon goes on.
func TestDropsUnderStreams(t *testing.T) {
	st := openEmbedded(t, t.TempDir())
	r := newRigOver(t, st)
	t.Cleanup(func() { // before the rig's own
		r.http.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	var streams sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		streams.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				pr, pw := io.Pipe()
				go func() { pw.CloseWithError(numbered(pw, 0, 60_000)) }()
				resp, err := http.Post(r.http.URL+"/api/v1/filter?filter_typeid=drops", textType, pr)
				if err != nil {
					continue // cut before it began
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err == nil && resp.StatusCode == 200 && resp.Trailer.Get(headerTotal) != "60000" {
					t.Errorf("a part was answered as if it were whole: %v", resp.Trailer)
				}
				if resp.StatusCode != 200 && resp.StatusCode != 404 {
					t.Errorf("got %s", resp.Status)
				}
			}
		})
	}
	for range 20 {
		if a := r.put("drops", `{"capacity":100000}`); a.status != 201 {
			t.Errorf("PUT: %d %s", a.status, a.body)
		}
		r.post("/api/v1/filter", `{"filter_typeid":"drops","uri_list":["x"]}`)
		if a := r.do("DELETE", "/api/v1/filters/drops?confirm=drops", ""); a.status != 204 {
			t.Errorf("DELETE: %d %s", a.status, a.body)
		}
		r.scrape()
	}
	close(stop)
	streams.Wait()
}
