package api

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
)

func info(t testing.TB, a answer) client.FilterInfo {
	t.Helper()
	var f client.FilterInfo
	if err := json.Unmarshal([]byte(a.body), &f); err != nil {
		t.Fatalf("%v: %d %q", err, a.status, a.body)
	}
	return f
}

func (r *rig) put(name, body string) answer {
	r.t.Helper()
	return r.do("PUT", "/api/v1/filters/"+name, body, "Content-Type", jsonType)
}

func TestPutFilter(t *testing.T) {
	r := newRig(t)
	a := r.put("pages", `{"id":12,"kind":"bloom","capacity":2000,"error_rate":0.001,"on_full":"reject"}`)
	if got := a.header.Get("Location"); a.status != 201 || got != "/api/v1/filters/pages" {
		t.Errorf("made: %d, Location %q", a.status, got)
	}
	f := info(t, a)
	if f.ID != 12 || f.Name != "pages" || f.Kind != "bloom" || f.Capacity != 2000 || f.ErrorRate != 0.001 || f.OnFull != "reject" || f.Generation != 1 || f.Bytes == 0 {
		t.Errorf("made: %+v", f)
	}
	for _, same := range []string{`{"id":12,"kind":"bloom","capacity":2000,"error_rate":0.001,"on_full":"reject"}`, `{"capacity":2000}`, `{}`, ``} {
		if a := r.put("pages", same); a.status != 200 || info(t, a).ID != 12 {
			t.Errorf("PUT %s again: %d %s", same, a.status, a.body)
		}
	}
	for _, other := range []string{`{"id":13}`, `{"capacity":2001}`, `{"error_rate":0.01}`, `{"on_full":"warn"}`} {
		if a := r.put("pages", other); a.status != 409 {
			t.Errorf("PUT %s: %d, want 409", other, a.status)
		}
	}
}

func TestPutTakesDefaults(t *testing.T) {
	r := newRig(t)
	for i, body := range []string{``, `{}`, ` {"kind": "bloom"} `} {
		name := []string{"a", "b", "c"}[i]
		f := info(t, r.put(name, body))
		if f.Capacity != 5000 || f.ErrorRate != 0.0001 || f.Kind != "bloom" || f.OnFull != "warn" || f.ID != 1000+i {
			t.Errorf("%q: %+v", body, f)
		}
	}
}

func TestListAndGetFilters(t *testing.T) {
	r := newRig(t)
	r.post("/api/v1/filter", `{"filter_typeid":"ip","uri_list":["10.0.0.1","10.0.0.2"]}`)
	var list client.FilterList
	if err := json.Unmarshal([]byte(r.do("GET", "/api/v1/filters", "").body), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Filters) != 2 || list.Filters[0].Name != "uri" || list.Filters[1].Name != "ip" {
		t.Errorf("list: %+v", list)
	}
	for _, ref := range []string{"ip", "2"} {
		f := info(t, r.do("GET", "/api/v1/filters/"+ref, ""))
		if f.Name != "ip" || f.ItemsEstimate != 2 || f.FillRatio <= 0 || f.FPREstimate < 0 || f.LastWriteback != nil {
			t.Errorf("GET %s: %+v", ref, f)
		}
	}
}

func TestLastWritebackIsShownOnceKnown(t *testing.T) {
	r := newRig(t)
	if strings.Contains(r.scrape(), "urifilter_last_writeback") {
		t.Error("metric of a writeback that never was")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, set := range r.store.sets {
		set.writeback.Store(&at)
	}
	if f := info(t, r.do("GET", "/api/v1/filters/uri", "")); f.LastWriteback == nil || !f.LastWriteback.Equal(at) {
		t.Errorf("got %v, want %v", f.LastWriteback, at)
	}
	if want := `urifilter_last_writeback_timestamp_seconds{filter="uri"} 1.767323045e+09`; !strings.Contains(r.scrape(), want) {
		t.Errorf("metrics lack %s", want)
	}
}

func TestDropFilter(t *testing.T) {
	r := newRig(t)
	r.post("/api/v1/filter", `{"filter_typeid":"ip","uri_list":["10.0.0.1"]}`)
	if a := r.do("DELETE", "/api/v1/filters/2?confirm=ip", ""); a.status != 204 || a.body != "" {
		t.Errorf("DELETE: %d %q", a.status, a.body)
	}
	if a := r.do("GET", "/api/v1/filters/ip", ""); a.status != 404 {
		t.Errorf("GET of what was dropped: %d", a.status)
	}
	r.put("ip", `{"id":2}`)
	wantBody(t, r.post("/api/v1/filter", `{"filter_typeid":2,"uri_list":["10.0.0.1"]}`), `{"uri_list":["10.0.0.1"],"total":1,"duplicates":0}`+"\n")
}

func TestMetrics(t *testing.T) {
	r := newRig(t)
	r.post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["secret-item","b","b"]}`)
	r.post("/cr-clawr/uri_filter/api/uri_filter/", `{"filter_typeid":1,"uri_list":["b"]}`)
	r.post("/api/v1/filter?filter_typeid=1", "c\nb\n", "Content-Type", textType)
	r.post("/api/v1/check", `{"filter_typeid":1,"uri_list":["d"]}`)
	r.do("GET", "/secret-path", "")
	r.do("GET", "/another-path", "")
	r.do("GET", "/api/v1/filters/secret-name", "")
	text := r.scrape()
	for _, want := range []string{
		`urifilter_items_total{filter="uri",result="new"} 3`,
		`urifilter_items_total{filter="uri",result="duplicate"} 3`,
		`urifilter_items_total{filter="ip",result="new"} 0`,
		`urifilter_requests_total{code="200",path="/api/v1/filter"} 2`,
		`urifilter_requests_total{code="200",path="/cr-clawr/uri_filter/api/uri_filter"} 1`,
		`urifilter_requests_total{code="404",path="unknown"} 2`,
		`urifilter_requests_total{code="404",path="/api/v1/filters/{name}"} 1`,
		`urifilter_request_duration_seconds_count{path="/api/v1/filter"} 2`,
		`urifilter_store_request_duration_seconds_count{op="add"} 3`,
		`urifilter_store_request_duration_seconds_count{op="has"} 1`,
		`urifilter_filter_items_estimate{filter="uri"} 3`,
		`urifilter_filter_capacity_items{filter="uri"} 4e+06`,
		`urifilter_filter_fill_ratio{filter="uri"} `,
		`urifilter_filter_error_rate_ratio{filter="uri"} 0.0001`,
		`urifilter_checked_items_total{filter="uri",result="new"} 1`,
		`urifilter_checked_items_total{filter="uri",result="seen"} 0`,
		`urifilter_errors_total{error_code="unknown_path",method="other",path="unknown"} 2`,
		`urifilter_errors_total{error_code="unknown_filter",method="GET",path="/api/v1/filters/{name}"} 1`,
		`urifilter_requests_in_flight 1`,
		`urifilter_ready 1`,
		`urifilter_filter_fpr_estimate_ratio{filter="uri"} `,
		`urifilter_filter_bytes{filter="uri"} `,
		`urifilter_build_info{goversion="go`, `version="1.2.3"} 1`,
		`go_goroutines `, `process_resident_memory_bytes `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, "secret") {
		t.Error("metrics hold what a client sent")
	}
	r.do("DELETE", "/api/v1/filters/uri?confirm=uri", "")
	if text = r.scrape(); strings.Contains(text, `filter="uri"`) {
		t.Error("metrics of a filter that was dropped")
	}
	r.put("uri", `{"id":1}`)
	if want := `urifilter_items_total{filter="uri",result="new"} 0`; !strings.Contains(r.scrape(), want) {
		t.Errorf("a filter made again: metrics lack %s", want)
	}
}

func TestHealth(t *testing.T) {
	r := newRig(t)
	wantBody(t, r.do("GET", "/livez", ""), "ok\n")
	wantBody(t, r.do("GET", "/readyz", ""), "ready\n")
	wantBody(t, r.do("GET", "/readyz?verbose", ""), "daemon: ok\nfilter uri: about 0 of 4000000 items\nfilter ip: about 0 of 10000 items\n")
	r.store.notReady(errors.New("journal is being read"))
	if p := r.do("GET", "/readyz", "").problem(t); p.Detail != "journal is being read" {
		t.Errorf("detail: %q", p.Detail)
	}
	if a := r.do("GET", "/readyz?verbose", ""); a.status != 503 || !strings.HasPrefix(a.body, "daemon: journal is being read\n") {
		t.Errorf("verbose: %d %q", a.status, a.body)
	}
	r.store.notReady(nil)
	r.api.Drain()
	if p := r.do("GET", "/readyz", "").problem(t); p.ErrorCode != "not_ready" || p.Detail != "the daemon is stopping" {
		t.Errorf("draining: %+v", p)
	}
	wantBody(t, r.do("GET", "/livez", ""), "ok\n")
	wantBody(t, r.post("/api/v1/filter", `{"filter_typeid":1,"uri_list":[1]}`), `{"uri_list":[1],"total":1,"duplicates":0}`+"\n")
}

func TestRootAndHead(t *testing.T) {
	r := newRig(t)
	a := r.do("GET", "/", "")
	if !strings.Contains(a.body, "urifilter 1.2.3") || !strings.Contains(a.body, r.http.URL+"/api/v1/filter") {
		t.Errorf("root: %q", a.body)
	}
	for _, path := range []string{"/", "/livez", "/readyz", "/openapi.yaml", "/metrics", "/api/v1/filters", "/api/v1/filters/uri"} {
		if a := r.do("HEAD", path, ""); a.status != 200 || a.body != "" {
			t.Errorf("HEAD %s: %d %q", path, a.status, a.body)
		}
	}
}

func TestFilterNumbersAreFinite(t *testing.T) {
	f := info(t, newRig(t).do("GET", "/api/v1/filters/uri", ""))
	if math.IsNaN(f.FPREstimate) || f.FillRatio != 0 || f.ItemsEstimate != 0 {
		t.Errorf("empty filter: %+v", f)
	}
}
