package filters_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// Two callers clear a filter repeatedly while crawlers ask and streams run: no call is refused,
// and after each clear all items are new.
func TestClearBesideUse(t *testing.T) {
	const each = 3
	st := apitest.OpenEmbedded(t, t.TempDir())
	r := apitest.Over(t, st)
	t.Cleanup(func() { // before the rig's own
		r.HTTP.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	before := apitest.Info(t, r.Do("GET", "/api/v1/filters/uri", ""))
	stop := make(chan struct{})
	running := func() bool {
		select {
		case <-stop:
			return false
		default:
			return true
		}
	}
	var asking sync.WaitGroup
	for w := range 2 {
		asking.Go(func() {
			for i := 0; running(); i++ {
				if a := r.Post("/api/v1/filter", fmt.Sprintf(`{"filter_typeid":"uri","uri_list":["%d-%d","x"]}`, w, i)); a.Status != 200 {
					t.Errorf("a crawler that asks meanwhile: %d %s", a.Status, a.Body)
				}
			}
		})
	}
	asking.Go(func() {
		for running() {
			pr, pw := io.Pipe()
			go func() { pw.CloseWithError(apitest.Numbered(pw, 0, 20_000)) }()
			resp, err := http.Post(r.HTTP.URL+"/api/v1/filter?filter_typeid=uri", apitest.TextType, pr)
			if err != nil {
				t.Errorf("a stream meanwhile: %v", err)
				return
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if total := resp.Trailer.Get("Urifilter-Total") + resp.Header.Get("Urifilter-Total"); err != nil || resp.StatusCode != 200 || total != "20000" {
				t.Errorf("a stream meanwhile: %s, %v, total %q", resp.Status, err, total)
			}
		}
	})
	var clearing sync.WaitGroup
	for w := range 2 {
		clearing.Go(func() {
			for i := range each {
				item := fmt.Sprintf(`{"filter_typeid":1,"uri_list":["own %d %d"]}`, w, i)
				r.Post("/api/v1/filter", item)
				if a := r.Do("POST", "/api/v1/filters/uri/clear?confirm=uri", ""); a.Status != 200 {
					t.Errorf("clear: %d %s", a.Status, a.Body)
				}
				if a := r.Post("/api/v1/filter", item); !strings.Contains(a.Body, "own") {
					t.Errorf("an item from before the clear is seen: %s", a.Body)
				}
			}
		})
	}
	clearing.Wait()
	close(stop)
	asking.Wait()
	after := apitest.Info(t, r.Do("GET", "/api/v1/filters/uri", ""))
	if after.Generation != before.Generation+2*each {
		t.Errorf("generation %d after %d clears, before %d", after.Generation, 2*each, before.Generation)
	}
	if after.ID != before.ID || after.Capacity != before.Capacity || after.ErrorRate != before.ErrorRate || after.OnFull != before.OnFull {
		t.Errorf("cleared: %+v, before %+v", after, before)
	}
}

func TestClear(t *testing.T) {
	r := apitest.New(t)
	r.Put("news", `{"kind":"timing","expire":60}`)
	for _, name := range []string{"uri", "news"} {
		body := `{"filter_typeid":"` + name + `","uri_list":["a","b"]}`
		r.Post("/api/v1/filter", body)
		if p := r.Do("POST", "/api/v1/filters/"+name+"/clear", "").Problem(t); p.ErrorCode != "confirm_required" {
			t.Errorf("without confirm: %+v", p)
		}
		f := apitest.Info(t, r.Do("POST", "/api/v1/filters/"+name+"/clear?confirm="+name, ""))
		if f.Name != name || f.Generation != 2 || f.ItemsEstimate != 0 || f.Items != 0 {
			t.Errorf("cleared: %+v", f)
		}
		apitest.WantBody(t, r.Post("/api/v1/filter", body), `{"uri_list":["a","b"],"total":2,"duplicates":0}`+"\n")
	}
	if want := `urifilter_items_total{filter="uri",result="new"} 4`; !strings.Contains(r.Scrape(), want) {
		t.Errorf("a filter that was cleared: metrics lack %s", want)
	}
	if p := r.Do("POST", "/api/v1/filters/none/clear?confirm=none", "").Problem(t); p.ErrorCode != "unknown_filter" {
		t.Errorf("unknown: %+v", p)
	}
	if p := r.Do("POST", "/api/v1/filters/uri/clear?confirm=uri&now", "").Problem(t); p.ErrorCode != "unknown_parameter" {
		t.Errorf("parameter: %+v", p)
	}
}
