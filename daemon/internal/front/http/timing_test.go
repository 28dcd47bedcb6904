package http_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// onTiming makes a call to a daemon with the timing filters news, with one hour, and none, for
// which every call must say when items expire.
func onTiming(call func(*apitest.Rig) apitest.Answer) func(*apitest.Rig) apitest.Answer {
	return func(r *apitest.Rig) apitest.Answer {
		r.T.Helper()
		putTiming(r)
		a := call(r)
		for _, name := range []string{"news", "none"} {
			if got := apitest.Info(r.T, r.Do("GET", "/api/v1/filters/"+name, "")); got.Items != 0 {
				r.T.Errorf("%s remembers %d items of a request that was refused", name, got.Items)
			}
		}
		return a
	}
}

func putTiming(r *apitest.Rig) {
	r.T.Helper()
	for name, body := range map[string]string{"news": `{"kind":"timing","expire":3600}`, "none": `{"kind":"timing","expire":null}`} {
		if a := r.Put(name, body); a.Status != 201 {
			r.T.Fatalf("PUT %s: %d %s", name, a.Status, a.Body)
		}
	}
}

// timingCases are the refusals that concern the kind timing.
func timingCases() map[string]errorCase {
	cases := map[string]errorCase{
		"expire to a bloom filter":         {code: "expire_not_supported", status: 422, detail: "kind bloom", call: apitest.List(`{"filter_typeid":1,"uri_list":["a"],"expire":5}`)},
		"expire to a bloom filter, stream": {code: "expire_not_supported", status: 422, call: apitest.Lines("?filter_typeid=1&expire=5", "a\n")},
		"expire to a bloom filter, check":  {code: "expire_not_supported", status: 422, call: apitest.Request("POST", "/api/v1/check", `{"filter_typeid":1,"uri_list":["a"],"expire":5}`)},
		"expire to a bloom filter, PUT":    {code: "expire_not_supported", status: 422, call: apitest.Request("PUT", "/api/v1/filters/x", `{"expire":5}`)},
		"no expire":                        {code: "expire_missing", status: 422, detail: "none was made without", call: onTiming(apitest.List(`{"filter_typeid":"none","uri_list":["a"]}`))},
		"expire null":                      {code: "expire_missing", status: 422, call: onTiming(apitest.List(`{"filter_typeid":"none","uri_list":["a"],"expire":null}`))},
		"no expire, stream":                {code: "expire_missing", status: 422, call: onTiming(apitest.Lines("?filter_typeid=none", "a\n"))},
		"capacity to a timing filter":      {code: "invalid_filter", status: 422, detail: "capacity: is for filters of the kind bloom", call: apitest.Request("PUT", "/api/v1/filters/x", `{"kind":"timing","capacity":100}`)},
		"error rate to a timing filter":    {code: "invalid_filter", status: 422, detail: "error_rate: is for", call: apitest.Request("PUT", "/api/v1/filters/x", `{"kind":"timing","error_rate":0.1}`)},
		"on_full to a timing filter":       {code: "invalid_filter", status: 422, detail: "on_full: is for", call: apitest.Request("PUT", "/api/v1/filters/x", `{"kind":"timing","on_full":"warn"}`)},
		"another kind":                     {code: "filter_conflict", status: 409, call: apitest.Request("PUT", "/api/v1/filters/uri", `{"kind":"timing"}`)},
		"another kind, the other way":      {code: "filter_conflict", status: 409, call: onTiming(apitest.Request("PUT", "/api/v1/filters/news", `{"kind":"bloom"}`))},
		"another expire":                   {code: "filter_conflict", status: 409, call: onTiming(apitest.Request("PUT", "/api/v1/filters/news", `{"kind":"timing","expire":60}`))},
		"writeback of a timing filter":     {code: "bitmap_not_supported", status: 422, detail: "kind timing", call: onTiming(apitest.Request("POST", "/api/v1/filters/news/writeback", ""))},
		"restore of a timing filter":       {code: "bitmap_not_supported", status: 422, call: onTiming(apitest.Request("POST", "/api/v1/filters/news/restore", ""))},
		"forget in a bloom filter":         {code: "forget_not_supported", status: 422, detail: "filters of the kinds exact and timing can", call: apitest.Request("POST", "/api/v1/forget", `{"filter_typeid":1,"uri_list":["a"]}`)},
		"reserve in a bloom filter":        {code: "reserve_not_supported", status: 422, detail: "filters of the kinds exact and timing can", call: apitest.Request("POST", "/api/v1/reserve", `{"filter_typeid":1,"uri_list":["a"],"lease":1}`)},
		"lease zero":                       {code: "lease_invalid", status: 422, detail: "at most 86400", call: onExact(apitest.Request("POST", "/api/v1/reserve", `{"filter_typeid":"jobs","uri_list":["a"],"lease":0}`))},
		"a reservation that nobody made":   {code: "unknown_reservation", status: 404, detail: "reserve them again", call: onExact(apitest.Request("POST", "/api/v1/commit", `{"filter_typeid":"jobs","reservation":"x"}`))},
	}
	for name, value := range map[string]string{
		"zero": "0", "negative": "-1", "below zero": "-0.001", "eleven years": "346896000", "a tick beyond ten years": "315360000.002",
		"absurd": "1e300", "beyond a double": "1e999", "a string": `"60"`, "a list": `[60]`, "an object": `{"s":60}`, "true": "true",
	} {
		cases["expire is "+name] = errorCase{code: "expire_invalid", status: 422, detail: "want ", call: onTiming(apitest.List(`{"filter_typeid":"news","expire":` + value + `,"uri_list":["a"]}`))}
		cases["expire is "+name+", check"] = errorCase{code: "expire_invalid", status: 422, call: onTiming(apitest.Request("POST", "/api/v1/check", `{"filter_typeid":"news","uri_list":["a"],"expire":`+value+`}`))}
		cases["expire is "+name+", PUT"] = errorCase{code: "expire_invalid", status: 422, call: apitest.Request("PUT", "/api/v1/filters/x", `{"kind":"timing","expire":`+value+`}`)}
	}
	for _, value := range []string{"0", "-1", "soon", "1h", "", "1e300", "1e999", "NaN", "0x10", "Infinity", "null"} {
		cases["expire="+value] = errorCase{code: "expire_invalid", status: 422, call: onTiming(apitest.Lines("?filter_typeid=news&expire="+value, "a\n"))}
	}
	return cases
}

func TestNoErrorCaseHidesAnother(t *testing.T) {
	all := errorCases()
	maps.DeleteFunc(all, func(name string, _ errorCase) bool { _, twice := timingCases()[name]; return !twice })
	if len(all) > 0 {
		t.Errorf("cases that hide others: %v", all)
	}
}

func TestTimingOverHTTP(t *testing.T) {
	r := apitest.New(t)
	putTiming(r)
	filter := func(body string, fresh, duplicates int) {
		t.Helper()
		var got client.FilterResult[string]
		a := r.Post("/api/v1/filter", body)
		if err := json.Unmarshal([]byte(a.Body), &got); err != nil || len(got.URIList) != fresh || got.Duplicates != duplicates {
			t.Errorf("%s: %d new and %d duplicates wanted: %d %s", body, fresh, duplicates, a.Status, a.Body)
		}
	}
	filter(`{"filter_typeid":"news","uri_list":["a","b","a"]}`, 2, 1)            // an hour
	filter(`{"filter_typeid":"news","uri_list":["c","a"],"expire":0.5}`, 1, 1)   // half a second, and no change
	filter(`{"filter_typeid":"none","uri_list":["a"],"expire":315360000}`, 1, 0) // another filter, ten years
	apitest.WantBody(t, r.Post("/api/v1/filter?filter_typeid=news&expire=7200", "a\nd\n", "Content-Type", apitest.TextType), "d\n")
	r.Store.Pass(499 * time.Millisecond)
	filter(`{"filter_typeid":"news","uri_list":["c"],"expire":100}`, 0, 1) // does not renew
	apitest.WantBody(t, r.Post("/api/v1/check", `{"filter_typeid":"news","uri_list":["c","e"]}`), `{"new":[false,true]}`+"\n")
	r.Store.Pass(time.Millisecond)
	apitest.WantBody(t, r.Post("/api/v1/check", `{"filter_typeid":"news","uri_list":["c","e"],"expire":1}`), `{"new":[true,true]}`+"\n")
	apitest.WantBody(t, r.Post("/api/v1/check?filter_typeid=none", "a\nb\n", "Content-Type", apitest.TextType), "seen\nnew\n")
	filter(`{"filter_typeid":"news","uri_list":["c","e"]}`, 2, 0)

	got := apitest.Info(t, r.Do("GET", "/api/v1/filters/news", ""))
	if got.Kind != "timing" || got.Expire != 3600 || got.Items != 5 || got.Bytes == 0 || got.Generation != 1 {
		t.Errorf("news: %+v", got)
	}
	for _, want := range []string{`"kind":"timing"`, `"expire":null`, `"items":1`} {
		if a := r.Do("GET", "/api/v1/filters/none", ""); !strings.Contains(a.Body, want) || strings.Contains(a.Body, "capacity") {
			t.Errorf("none: want %s: %s", want, a.Body)
		}
	}
	r.Store.Pass(3600*time.Second - time.Millisecond)
	filter(`{"filter_typeid":"news","uri_list":["d","e"]}`, 0, 2) // two hours, and a millisecond left of one
	filter(`{"filter_typeid":"news","uri_list":["a"]}`, 1, 0)
	text := r.Scrape()
	for _, want := range []string{
		`urifilter_filter_items{filter="none"} 1`, `urifilter_filter_items{filter="news"} 4`, `urifilter_filter_bytes{filter="news"} `,
		`urifilter_items_total{filter="news",result="new"} 7`, `urifilter_filter_info{filter="news",id="100`, `kind="timing"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	for _, no := range []string{"capacity_items", "fill_ratio", "fpr_estimate_ratio", "items_estimate"} {
		if strings.Contains(text, "urifilter_filter_"+no+`{filter="news"}`) {
			t.Errorf("metric %s of a timing filter", no)
		}
	}
	if a := r.Do("GET", "/readyz?verbose", ""); !strings.Contains(a.Body, "filter news: 4 items\n") {
		t.Errorf("readyz: %s", a.Body)
	}
}

func TestPutTimingFilter(t *testing.T) {
	r := apitest.New(t)
	for body, want := range map[string]string{
		`{"kind":"timing"}`: "null", `{"kind":"timing","expire":null}`: "null", `{"kind":"timing","expire":90}`: "90",
		`{"kind":"timing","expire":0.0001}`: "0.001", `{"kind":"timing","expire":1.5e0,"id":77}`: "1.5", `{"expire":3.15360e8,"kind":"timing"}`: "315360000",
	} {
		name := fmt.Sprintf("f%d", len(r.Engine.Filters()))
		for _, status := range []int{201, 200} {
			if a := r.Put(name, body); a.Status != status || !strings.Contains(a.Body, `"expire":`+want+",") {
				t.Errorf("%s: %d %s; want %d and expire %s", body, a.Status, a.Body, status, want)
			}
		}
		// Omitted values stay as they are.
		for _, same := range []string{`{}`, ``, `{"kind":"timing"}`} {
			if a := r.Put(name, same); a.Status != 200 {
				t.Errorf("%s, then %s: %d %s", body, same, a.Status, a.Body)
			}
		}
	}
}

// onExact makes a call after making an exact filter.
func onExact(call func(*apitest.Rig) apitest.Answer) func(*apitest.Rig) apitest.Answer {
	return func(r *apitest.Rig) apitest.Answer {
		r.Put("jobs", `{"kind":"exact"}`)
		return call(r)
	}
}
