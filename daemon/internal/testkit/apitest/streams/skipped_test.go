package streams_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

func TestListSkipsInvalidItems(t *testing.T) {
	r := apitest.New(t)
	a := r.Post("/api/v1/filter", `{"filter":1,"invalid":"skip","items":["",null,"a","a",9007199254740993,"b"]}`)
	apitest.WantBody(t, a, `{"uri_list":["a","b"],"total":6,"duplicates":1,"invalid":3,"invalid_items":[`+
		`{"index":0,"error_code":"empty_item","detail":"empty string"},`+
		`{"index":1,"error_code":"null_item","detail":"null is not an item"},`+
		`{"index":4,"error_code":"invalid_item","detail":"integer 9007199254740993 is not exact as a double; send it as a string"}]}`+"\n")
	apitest.WantBody(t, r.Post("/api/v1/check", `{"filter":1,"items":["c","",null,"a",""],"invalid":"skip"}`),
		`{"new":[true,null,null,false,null],"invalid":3,"invalid_items":[{"index":1,"error_code":"empty_item","detail":"empty string"},`+
			`{"index":2,"error_code":"null_item","detail":"null is not an item"},{"index":4,"error_code":"empty_item","detail":"empty string"}]}`+"\n")
	apitest.WantBody(t, r.Post("/cr-clawr/uri_filter/api/uri_filter", `{"filter":1,"invalid":"skip","items":["c"]}`), `{"uri_list":["c"],"total":1,"duplicates":0,"invalid":0}`+"\n")
	apitest.WantBody(t, r.Post("/api/v1/filter", `{"filter":1,"invalid":"skip","items":[null]}`),
		`{"uri_list":[],"total":1,"duplicates":0,"invalid":1,"invalid_items":[{"index":0,"error_code":"null_item","detail":"null is not an item"}]}`+"\n")

	// A call without invalid=skip is strict, and nothing of its list is remembered.
	for _, body := range []string{`{"filter":1,"items":["d",null]}`, `{"filter":1,"items":["d",null],"invalid":"reject"}`, `{"filter":1,"items":["d",null],"invalid":null}`} {
		if p := r.Post("/api/v1/filter", body).Problem(t); p.ErrorCode != "null_item" || p.Index == nil || *p.Index != 1 {
			t.Errorf("%s: %+v", body, p)
		}
	}
	apitest.WantBody(t, r.Post("/api/v1/check", `{"filter":1,"items":["d"]}`), `{"new":[true]}`+"\n")

	if got, want := r.Scrape(), `urifilter_invalid_items_total{filter="uri"} 7`+"\n"; !strings.Contains(got, want) {
		t.Errorf("metrics lack %s", want)
	}
}

func TestListTellsOfAHundredInvalidItems(t *testing.T) {
	r := apitest.New(t)
	var got client.FilterResult[string]
	a := r.Post("/api/v1/filter", `{"filter":1,"invalid":"skip","items":["a"`+strings.Repeat(`,""`, 1000)+`]}`)
	if err := json.Unmarshal([]byte(a.Body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Invalid != 1000 || len(got.Items) != 100 || got.Items[99].Index != 100 || got.Total != 1001 || got.Duplicates != 0 {
		t.Errorf("%d of %d invalid, %d told", got.Invalid, got.Total, len(got.Items))
	}
}

// toldOf returns the items that a stream's answer reports as skipped.
func toldOf(t *testing.T, h http.Header) (count string, items []client.InvalidItem) {
	t.Helper()
	if text := h.Get("Urifilter-Invalid-Items"); text != "" {
		if err := json.Unmarshal([]byte(text), &items); err != nil {
			t.Fatal(err)
		}
	}
	return h.Get("Urifilter-Invalid"), items
}

func TestStreamSkipsInvalidLines(t *testing.T) {
	r := apitest.New(t, func(o *api.Options) { o.Limits.ItemBytes = 100 })
	long := strings.Repeat("x", 101)
	a := r.Post("/api/v1/filter?filter=uri&invalid=skip", "a\n"+long+"\nb\na\n", "Content-Type", "text/plain")
	apitest.WantBody(t, a, "a\nb\n")
	count, told := toldOf(t, a.Header)
	want := client.InvalidItem{Index: 1, ErrorCode: "item_too_large", Detail: "line of more than 100 bytes"}
	if count != "1" || len(told) != 1 || told[0] != want || a.Header.Get("Urifilter-Total") != "4" || a.Header.Get("Urifilter-Duplicates") != "1" {
		t.Errorf("%s skipped, %v, totals %v", count, told, a.Header)
	}

	a = r.Post("/api/v1/filter?filter=uri&invalid=skip", "\"c\"\nno JSON\nnull\n\"a\"\n\"ü\xff\"\n", "Content-Type", "application/x-ndjson")
	apitest.WantBody(t, a, "\"c\"\n")
	if count, told = toldOf(t, a.Header); count != "3" || len(told) != 3 || told[0].ErrorCode != "malformed_json" || told[2].Index != 4 {
		t.Errorf("%s skipped, %v", count, told)
	}

	a = r.Post("/api/v1/check?filter=uri&invalid=skip", long+"\na\nd\n"+long, "Content-Type", "text/plain")
	apitest.WantBody(t, a, "invalid\nseen\nnew\ninvalid\n")
	apitest.WantBody(t, r.Post("/api/v1/check?filter=uri&invalid=skip", "\"a\"\n{\n\"d\"\n", "Content-Type", "application/x-ndjson"), "false\nnull\ntrue\n")

	a = r.Post("/api/v1/filter?filter=uri&invalid=skip", "e\n", "Content-Type", "text/plain")
	apitest.WantBody(t, a, "e\n")
	if count, told = toldOf(t, a.Header); count != "0" || told != nil {
		t.Errorf("%q skipped of none, %v", count, told)
	}
	for query, code := range map[string]string{"": "item_too_large", "&invalid=reject": "item_too_large", "&invalid=maybe": "invalid_parameter", "&invalid=": "invalid_parameter"} {
		a = r.Post("/api/v1/filter?filter=uri"+query, "f\n"+long, "Content-Type", "text/plain")
		if p := a.Problem(t); p.ErrorCode != code || a.Header.Get("Urifilter-Invalid") != "" {
			t.Errorf("%q: %+v, want %s", query, p, code)
		}
	}
}

// A long answer reports the skipped items of all its batches in its trailers, in so few bytes
// that clients accept them.
func TestLongStreamTellsOfSkippedLinesInTrailers(t *testing.T) {
	r := apitest.New(t)
	var body strings.Builder
	bad := 0
	for i := range 60_000 {
		if i%1000 == 7 {
			fmt.Fprintf(&body, "{\"%s\":1,\"%[1]s\":2}\n", strings.Repeat("\\u00fc", 40)) // a detail that is long in ASCII
			bad++
		}
		fmt.Fprintf(&body, "\"https://example.com/%d/%s\"\n", i, strings.Repeat("y", 30))
	}
	a := r.Post("/api/v1/filter?filter=uri&invalid=skip", body.String(), "Content-Type", "application/x-ndjson")
	if got := strings.Count(a.Body, "\n"); a.Status != 200 || got != 60_000 {
		t.Fatalf("%d, %d lines", a.Status, got)
	}
	count, told := toldOf(t, a.Trailer)
	if count != fmt.Sprint(bad) || a.Trailer.Get("Urifilter-Total") != fmt.Sprint(60_000+bad) || len(a.Trailer.Get("Urifilter-Invalid-Items")) > 2500+2 {
		t.Errorf("trailers %v, want %d skipped", a.Trailer, bad)
	}
	indexes := []int{7, 1008, 2009}
	if len(told) < 3 || len(told) >= 20 || !slices.EqualFunc(indexes, told[:3], func(i int, f client.InvalidItem) bool { return i == f.Index }) {
		t.Errorf("%d are told of: %v", len(told), told)
	}
}
