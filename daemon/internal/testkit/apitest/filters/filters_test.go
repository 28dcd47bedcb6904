package filters_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

func TestPutFilter(t *testing.T) {
	r := apitest.New(t)
	a := r.Put("pages", `{"id":12,"kind":"bloom","capacity":2000,"error_rate":0.001,"on_full":"reject"}`)
	if got := a.Header.Get("Location"); a.Status != 201 || got != "/api/v1/filters/pages" {
		t.Errorf("made: %d, Location %q", a.Status, got)
	}
	f := apitest.Info(t, a)
	if f.ID != 12 || f.Name != "pages" || f.Kind != "bloom" || f.Capacity != 2000 || f.ErrorRate != 0.001 || f.OnFull != "reject" || f.Generation != 1 || f.Bytes == 0 {
		t.Errorf("made: %+v", f)
	}
	for _, same := range []string{`{"id":12,"kind":"bloom","capacity":2000,"error_rate":0.001,"on_full":"reject"}`, `{"capacity":2000}`, `{}`, ``} {
		if a := r.Put("pages", same); a.Status != 200 || apitest.Info(t, a).ID != 12 {
			t.Errorf("PUT %s again: %d %s", same, a.Status, a.Body)
		}
	}
	for _, other := range []string{`{"id":13}`, `{"capacity":2001}`, `{"error_rate":0.01}`, `{"on_full":"warn"}`} {
		if a := r.Put("pages", other); a.Status != 409 {
			t.Errorf("PUT %s: %d, want 409", other, a.Status)
		}
	}
}

func TestPutTakesDefaults(t *testing.T) {
	r := apitest.New(t)
	for i, body := range []string{``, `{}`, ` {"kind": "bloom"} `} {
		name := []string{"a", "b", "c"}[i]
		f := apitest.Info(t, r.Put(name, body))
		if f.Capacity != 5000 || f.ErrorRate != 0.0001 || f.Kind != "bloom" || f.OnFull != "grow" || f.ID != 1000+i {
			t.Errorf("%q: %+v", body, f)
		}
	}
}

func TestListAndGetFilters(t *testing.T) {
	r := apitest.New(t)
	r.Post("/api/v1/filter", `{"filter_typeid":"ip","uri_list":["10.0.0.1","10.0.0.2"]}`)
	var list client.FilterList
	if err := json.Unmarshal([]byte(r.Do("GET", "/api/v1/filters", "").Body), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Filters) != 2 || list.Filters[0].Name != "uri" || list.Filters[1].Name != "ip" {
		t.Errorf("list: %+v", list)
	}
	for _, ref := range []string{"ip", "2"} {
		f := apitest.Info(t, r.Do("GET", "/api/v1/filters/"+ref, ""))
		if f.Name != "ip" || f.ItemsEstimate != 2 || f.FillRatio <= 0 || f.FPREstimate < 0 || f.LastWriteback != nil {
			t.Errorf("GET %s: %+v", ref, f)
		}
	}
}

func TestLastWritebackIsShownOnceKnown(t *testing.T) {
	r := apitest.New(t)
	if strings.Contains(r.Scrape(), "urifilter_last_writeback") {
		t.Error("metric of a writeback that never was")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, set := range r.Store.Sets {
		set.Writeback.Store(&at)
	}
	if f := apitest.Info(t, r.Do("GET", "/api/v1/filters/uri", "")); f.LastWriteback == nil || !f.LastWriteback.Equal(at) {
		t.Errorf("got %v, want %v", f.LastWriteback, at)
	}
	if want := `urifilter_last_writeback_timestamp_seconds{filter="uri"} 1.767323045e+09`; !strings.Contains(r.Scrape(), want) {
		t.Errorf("metrics lack %s", want)
	}
}

func TestDropFilter(t *testing.T) {
	r := apitest.New(t)
	r.Post("/api/v1/filter", `{"filter_typeid":"ip","uri_list":["10.0.0.1"]}`)
	if a := r.Do("DELETE", "/api/v1/filters/2?confirm=ip", ""); a.Status != 204 || a.Body != "" {
		t.Errorf("DELETE: %d %q", a.Status, a.Body)
	}
	if a := r.Do("GET", "/api/v1/filters/ip", ""); a.Status != 404 {
		t.Errorf("GET of what was dropped: %d", a.Status)
	}
	r.Put("ip", `{"id":2}`)
	apitest.WantBody(t, r.Post("/api/v1/filter", `{"filter_typeid":2,"uri_list":["10.0.0.1"]}`), `{"uri_list":["10.0.0.1"],"total":1,"duplicates":0}`+"\n")
}

func TestFilterNumbersAreFinite(t *testing.T) {
	f := apitest.Info(t, apitest.New(t).Do("GET", "/api/v1/filters/uri", ""))
	if math.IsNaN(f.FPREstimate) || f.FillRatio != 0 || f.ItemsEstimate != 0 {
		t.Errorf("empty filter: %+v", f)
	}
}
