package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Two clear a filter again and again while crawlers ask and streams run: nobody is refused,
// and after each clear all is new.
func TestClearBesideUse(t *testing.T) {
	st := openEmbedded(t, t.TempDir())
	r := newRigOver(t, st)
	t.Cleanup(func() { // before the rig's own
		r.http.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	before := info(t, r.do("GET", "/api/v1/filters/uri", ""))
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
				if a := r.post("/api/v1/filter", fmt.Sprintf(`{"filter_typeid":"uri","uri_list":["%d-%d","x"]}`, w, i)); a.status != 200 {
					t.Errorf("a crawler that asks meanwhile: %d %s", a.status, a.body)
				}
			}
		})
	}
	asking.Go(func() {
		for running() {
			pr, pw := io.Pipe()
			go func() { pw.CloseWithError(numbered(pw, 0, 60_000)) }()
			resp, err := http.Post(r.http.URL+"/api/v1/filter?filter_typeid=uri", textType, pr)
			if err != nil {
				t.Errorf("a stream meanwhile: %v", err)
				return
			}
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if total := resp.Trailer.Get(headerTotal) + resp.Header.Get(headerTotal); err != nil || resp.StatusCode != 200 || total != "60000" {
				t.Errorf("a stream meanwhile: %s, %v, total %q", resp.Status, err, total)
			}
		}
	})
	var clearing sync.WaitGroup
	for w := range 2 {
		clearing.Go(func() {
			for i := range 10 {
				item := fmt.Sprintf(`{"filter_typeid":1,"uri_list":["own %d %d"]}`, w, i)
				r.post("/api/v1/filter", item)
				if a := r.do("POST", "/api/v1/filters/uri/clear?confirm=uri", ""); a.status != 200 {
					t.Errorf("clear: %d %s", a.status, a.body)
				}
				if a := r.post("/api/v1/filter", item); !strings.Contains(a.body, "own") {
					t.Errorf("an item from before the clear is seen: %s", a.body)
				}
			}
		})
	}
	clearing.Wait()
	close(stop)
	asking.Wait()
	after := info(t, r.do("GET", "/api/v1/filters/uri", ""))
	if after.Generation != before.Generation+20 {
		t.Errorf("generation %d after 20 clears, before %d", after.Generation, before.Generation)
	}
	if after.ID != before.ID || after.Capacity != before.Capacity || after.ErrorRate != before.ErrorRate || after.OnFull != before.OnFull {
		t.Errorf("cleared: %+v, before %+v", after, before)
	}
}

func TestClear(t *testing.T) {
	r := newRig(t)
	r.put("news", `{"kind":"timing","expire":60}`)
	for _, name := range []string{"uri", "news"} {
		body := `{"filter_typeid":"` + name + `","uri_list":["a","b"]}`
		r.post("/api/v1/filter", body)
		if p := r.do("POST", "/api/v1/filters/"+name+"/clear", "").problem(t); p.ErrorCode != "confirm_required" {
			t.Errorf("without confirm: %+v", p)
		}
		f := info(t, r.do("POST", "/api/v1/filters/"+name+"/clear?confirm="+name, ""))
		if f.Name != name || f.Generation != 2 || f.ItemsEstimate != 0 || f.Items != 0 {
			t.Errorf("cleared: %+v", f)
		}
		wantBody(t, r.post("/api/v1/filter", body), `{"uri_list":["a","b"],"total":2,"duplicates":0}`+"\n")
	}
	if want := `urifilter_items_total{filter="uri",result="new"} 4`; !strings.Contains(r.scrape(), want) {
		t.Errorf("a filter that was cleared: metrics lack %s", want)
	}
	if p := r.do("POST", "/api/v1/filters/none/clear?confirm=none", "").problem(t); p.ErrorCode != "unknown_filter" {
		t.Errorf("unknown: %+v", p)
	}
	if p := r.do("POST", "/api/v1/filters/uri/clear?confirm=uri&now", "").problem(t); p.ErrorCode != "unknown_parameter" {
		t.Errorf("parameter: %+v", p)
	}
}
