package filters_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// reserve reserves items of jobs and returns the reservation's id.
func reserve(t *testing.T, r *apitest.Rig, list, want string) string {
	t.Helper()
	a := r.Post("/api/v1/reserve", `{"filter_typeid":"jobs","uri_list":`+list+`,"lease":3600}`)
	var got struct{ Reservation string }
	if err := json.Unmarshal([]byte(a.Body), &got); err != nil || len(got.Reservation) != 32 {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	apitest.WantBody(t, a, fmt.Sprintf(want+"\n", got.Reservation))
	return got.Reservation
}

// Items are given to one caller, in their form as sent and by their canonical one, and stay with
// it when the store is reopened.
func TestReserve(t *testing.T) {
	for name, body := range map[string]string{
		"exact": `{"kind":"exact","canonical":"safe"}`, "timing": `{"kind":"timing","expire":3600,"canonical":"safe"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			st := apitest.OpenEmbedded(t, dir)
			r := apitest.Over(t, st)
			r.Put("jobs", body)
			reopen := func() {
				t.Helper()
				r.HTTP.Close()
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
				st = apitest.OpenEmbedded(t, dir)
				r = apitest.Over(t, st)
			}
			settle := func(path, id, more, want string) {
				t.Helper()
				apitest.WantBody(t, r.Post("/api/v1/"+path, `{"filter_typeid":"jobs","reservation":"`+id+`"`+more+`}`), want+"\n")
			}
			r.Post("/api/v1/filter", `{"filter_typeid":"jobs","uri_list":["seen"]}`)
			a := reserve(t, r, `["HTTP://a.example:80/",{"b":1.0},"c","d","seen","http://a.example/"]`,
				`{"uri_list":["HTTP://a.example:80/",{"b":1.0},"c","d"],"reservation":"%s","total":6,"duplicates":2,"reserved":0}`)
			b := reserve(t, r, `["e","c","seen"]`, `{"uri_list":["e"],"reservation":"%s","total":3,"duplicates":1,"reserved":1}`)
			none := reserve(t, r, `["c","seen"]`, `{"uri_list":[],"reservation":"%s","total":2,"duplicates":1,"reserved":1}`)
			if none != strings.Repeat("0", 32) || a == b {
				t.Errorf("reservations %s, %s and %s", a, b, none)
			}
			named := strings.Repeat("0123456789abcdef", 2)
			again := func() {
				t.Helper()
				apitest.WantBody(t, r.Post("/api/v1/reserve", `{"filter_typeid":"jobs","uri_list":["c","g","g"],"lease":3600,"reservation":"`+named+`"}`),
					`{"uri_list":["g"],"reservation":"`+named+`","total":3,"duplicates":1,"reserved":1}`+"\n")
			}
			again()
			again()
			apitest.WantBody(t, r.Post("/api/v1/filter", `{"filter_typeid":"jobs","uri_list":["c","e"]}`), `{"uri_list":[],"total":2,"duplicates":2}`+"\n")
			apitest.WantBody(t, r.Post("/api/v1/check", `{"filter_typeid":"jobs","uri_list":["c","f"]}`), `{"new":[false,true]}`+"\n")
			for range 2 {
				settle("commit", a, `,"uri_list":["http://a.example/","e",{"b":1}]`, `{"done":2,"lost":["e"],"lost_total":1}`)
				settle("release", a, `,"items":["c"]`, `{"done":1,"lost":[],"lost_total":0}`)
				settle("release", a, `,"uri_list":[{"b":1},"",3],"invalid":"skip"`,
					`{"done":0,"lost":[{"b":1},3],"lost_total":2,"invalid":1,"invalid_items":[{"index":1,"error_code":"empty_item","detail":"empty string"}]}`)
				settle("commit", none, ``, `{"done":0,"lost":[],"lost_total":0}`)
				settle("commit", none, `,"uri_list":["c"]`, `{"done":0,"lost":["c"],"lost_total":1}`)
				settle("release", a, `,"uri_list":[]`, `{"done":0,"lost":[],"lost_total":0}`)
				reopen()
			}
			settle("commit", a, ``, `{"done":3,"lost":[],"lost_total":0}`)
			r.Post("/api/v1/forget", `{"filter_typeid":"jobs","uri_list":["e"]}`)
			settle("commit", b, ``, `{"done":0,"lost":[],"lost_total":1}`)
			apitest.WantBody(t, r.Post("/api/v1/check", `{"filter_typeid":"jobs","uri_list":["http://a.example/",{"b":1},"c","d","e"]}`), `{"new":[false,false,true,false,true]}`+"\n")
			text := r.Scrape()
			for _, want := range []string{
				`urifilter_settled_items_total{filter="jobs",result="committed"} 3`, `urifilter_settled_items_total{filter="jobs",result="lost"} 1`,
				`urifilter_reserved_items_total{filter="jobs",result="new"} 0`, `urifilter_store_request_duration_seconds_count{op="commit"} 2`,
			} {
				if !strings.Contains(text, want) {
					t.Errorf("metrics lack %s:\n%s", want, text)
				}
			}
			r.Post("/api/v1/filters/jobs/clear?confirm=jobs", "")
			if got := r.Post("/api/v1/commit", `{"filter_typeid":"jobs","reservation":"`+a+`"}`); got.Status != 404 || !strings.Contains(got.Body, "unknown_reservation") {
				t.Errorf("after a clear: %d %s", got.Status, got.Body)
			}
			r.HTTP.Close()
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Invalid calls are refused with a remedy; nothing is changed.
func TestReserveRefuses(t *testing.T) {
	r := apitest.New(t)
	r.Put("jobs", `{"kind":"exact"}`)
	id := reserve(t, r, `["a"]`, `{"uri_list":["a"],"reservation":"%s","total":1,"duplicates":0,"reserved":0}`)
	for _, test := range []struct {
		path, body, code, detail string
		status                   int
	}{
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"]}`, "missing_field", "lease", 400},
		{"reserve", `{"filter_typeid":"jobs","lease":1}`, "missing_field", "uri_list", 400},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":0,"reservation":"00000000000000000000000000000000"}`, "lease_invalid", "at most 86400", 422}, // the name itself is taken
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":0}`, "lease_invalid", "at most 86400", 422},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":-5}`, "lease_invalid", "at most 86400", 422},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":86401}`, "lease_invalid", "at most 86400", 422},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":1e400}`, "lease_invalid", "1e400", 422},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":"60"}`, "lease_invalid", "a string", 422},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":null}`, "lease_invalid", "null", 422},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":NaN}`, "malformed_json", "", 400},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":1,"lease":1}`, "duplicate_field", "lease", 400},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":1,"lend":1}`, "unknown_field", "expire, invalid, lease, reservation", 400},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":1,"reservation":"` + id[1:] + `"}`, "wrong_type", "32 hexadecimal digits", 400},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":1,"reservation":"` + strings.Repeat("G", 32) + `"}`, "wrong_type", "at random", 400},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":1,"reservation":"` + strings.Repeat("0", 16) + id[16:] + `"}`, "wrong_type", "at random", 400},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b"],"lease":1,"reservation":"` + id[16:] + strings.Repeat("0", 16) + `"}`, "wrong_type", "at random", 400},
		{"reserve", `{"filter_typeid":"jobs","uri_list":["b",""],"lease":1}`, "empty_item", "", 400},
		{"reserve", `{"filter_typeid":1,"uri_list":["b"],"lease":1}`, "reserve_not_supported", "exact and timing", 422},
		{"reserve", `{"filter_typeid":"none","uri_list":["b"],"lease":1}`, "unknown_filter", "", 404},
		{"commit", `{"filter_typeid":1,"reservation":"` + id + `"}`, "reserve_not_supported", "exact and timing", 422},
		{"commit", `{"filter_typeid":"jobs","uri_list":["a"]}`, "missing_field", "reservation", 400},
		{"commit", `{"filter_typeid":"jobs","reservation":"` + id + `","lease":1}`, "unknown_field", "expire, invalid, reservation", 400},
		{"commit", `{"filter_typeid":"jobs","reservation":5}`, "wrong_type", "reservation", 400},
		{"commit", `{"filter_typeid":"jobs","reservation":"` + id[1:] + `"}`, "unknown_reservation", "reserve them again", 404},
		{"commit", `{"filter_typeid":"jobs","reservation":"` + strings.Repeat("1", 32) + `","uri_list":["a"]}`, "unknown_reservation", "reserve them again", 404},
		{"release", `{"filter_typeid":"jobs","reservation":""}`, "unknown_reservation", "reserve them again", 404},
		{"release", `{"filter_typeid":"jobs","reservation":"` + id + `","uri_list":["a",null]}`, "null_item", "", 400},
		{"release", `{"filter_typeid":"jobs","reservation":"` + id + `","expire":5}`, "expire_not_supported", "", 422},
		{"filter", `{"filter_typeid":"jobs","uri_list":["b"],"lease":1}`, "unknown_field", "", 400},
	} {
		a := r.Post("/api/v1/"+test.path, test.body)
		var p client.Problem
		if err := json.Unmarshal([]byte(a.Body), &p); err != nil || a.Status != test.status || p.ErrorCode != test.code || !strings.Contains(p.Detail, test.detail) {
			t.Errorf("%s %s: %d %s, want %d %s and %q", test.path, test.body, a.Status, a.Body, test.status, test.code, test.detail)
		}
	}
	r.Put("calls", `{"kind":"timing"}`) // of the store for tests, which reserves nothing of such
	apitest.WantBody(t, r.Post("/api/v1/check", `{"filter_typeid":"jobs","uri_list":["a","b"]}`), `{"new":[false,true]}`+"\n")
	apitest.WantBody(t, r.Post("/api/v1/commit", `{"filter_typeid":"jobs","reservation":"`+id+`"}`), `{"done":1,"lost":[],"lost_total":0}`+"\n")
}

func TestReserveHasTheScopeFilter(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	for _, path := range []string{"reserve", "commit", "release"} {
		body := `{"filter_typeid":1,"uri_list":["a"],"lease":5}`
		if path != "reserve" {
			body = `{"filter_typeid":1,"reservation":"x"}`
		}
		for token, want := range map[string]int{"read": 403, "filter": 422, "forget": 403, "admin": 422, "none": 401} {
			a := r.Post("/api/v1/"+path, body, "Authorization", "Bearer secret-"+token)
			if a.Status != want { // 422: it is of the kind bloom
				t.Errorf("%s %s: %d %s, want %d", path, token, a.Status, a.Body, want)
			}
		}
	}
}
