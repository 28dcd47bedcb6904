package http_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

func TestMetrics(t *testing.T) {
	r := apitest.New(t)
	r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["secret-item","b","b"]}`)
	r.Post("/cr-clawr/uri_filter/api/uri_filter/", `{"filter_typeid":1,"uri_list":["b"]}`)
	r.Post("/api/v1/filter?filter_typeid=1", "c\nb\n", "Content-Type", apitest.TextType)
	r.Post("/api/v1/check", `{"filter_typeid":1,"uri_list":["d"]}`)
	r.Do("GET", "/secret-path", "")
	r.Do("GET", "/another-path", "")
	r.Do("GET", "/api/v1/filters/secret-name", "")
	text := r.Scrape()
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
	r.Do("DELETE", "/api/v1/filters/uri?confirm=uri", "")
	if text = r.Scrape(); strings.Contains(text, `filter="uri"`) {
		t.Error("metrics of a filter that was dropped")
	}
	r.Put("uri", `{"id":1}`)
	if want := `urifilter_items_total{filter="uri",result="new"} 0`; !strings.Contains(r.Scrape(), want) {
		t.Errorf("a filter made again: metrics lack %s", want)
	}
}

func TestHealth(t *testing.T) {
	r := apitest.New(t)
	apitest.WantBody(t, r.Do("GET", "/livez", ""), "ok\n")
	apitest.WantBody(t, r.Do("GET", "/readyz", ""), "ready\n")
	apitest.WantBody(t, r.Do("GET", "/readyz?verbose", ""), "daemon: ok\nfilter uri: about 0 of 4000000 items\nfilter ip: about 0 of 10000 items\n")
	r.Store.NotReady(errors.New("journal is being read"))
	if p := r.Do("GET", "/readyz", "").Problem(t); p.Detail != "journal is being read" {
		t.Errorf("detail: %q", p.Detail)
	}
	if a := r.Do("GET", "/readyz?verbose", ""); a.Status != 503 || !strings.HasPrefix(a.Body, "daemon: journal is being read\n") {
		t.Errorf("verbose: %d %q", a.Status, a.Body)
	}
	r.Store.NotReady(nil)
	r.API.Drain()
	if p := r.Do("GET", "/readyz", "").Problem(t); p.ErrorCode != "not_ready" || p.Detail != "the daemon is stopping" {
		t.Errorf("draining: %+v", p)
	}
	apitest.WantBody(t, r.Do("GET", "/livez", ""), "ok\n")
	apitest.WantBody(t, r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":[1]}`), `{"uri_list":[1],"total":1,"duplicates":0}`+"\n")
}

func TestRootAndHead(t *testing.T) {
	r := apitest.New(t)
	a := r.Do("GET", "/", "")
	if !strings.Contains(a.Body, "urifilter 1.2.3") || !strings.Contains(a.Body, r.HTTP.URL+"/api/v1/filter") {
		t.Errorf("root: %q", a.Body)
	}
	for _, path := range []string{"/", "/livez", "/readyz", "/openapi.yaml", "/metrics", "/api/v1/filters", "/api/v1/filters/uri"} {
		if a := r.Do("HEAD", path, ""); a.Status != 200 || a.Body != "" {
			t.Errorf("HEAD %s: %d %q", path, a.Status, a.Body)
		}
	}
}
