package http_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// Every refusal has its status and code, and leaves the item a unseen.
func TestErrors(t *testing.T) {
	tested := map[string]bool{}
	cases := errorCases()
	maps.Copy(cases, archiveCases())
	maps.Copy(cases, timingCases())
	for name, c := range cases {
		if c.large {
			continue // TestNoRaceErrorsOfLargeBodies tests it
		}
		tested[c.code] = true
		t.Run(name, func(t *testing.T) {
			if c.waits {
				synctest.Test(t, func(t *testing.T) { c.check(t, apitest.Piped) })
				return
			}
			c.check(t, apitest.New)
		})
	}
	for _, e := range problem.Table() {
		if !tested[e.Code] {
			t.Errorf("no case for %s", e.Code)
		}
	}
}

// Bodies that exceed the default limits of a daemon, from one caller.
func TestNoRaceErrorsOfLargeBodies(t *testing.T) {
	for name, c := range errorCases() {
		if c.large {
			t.Run(name, func(t *testing.T) { c.check(t, apitest.New) })
		}
	}
}

func (c errorCase) check(t *testing.T, rigs func(testing.TB, ...func(*api.Options)) *apitest.Rig) {
	var opts []func(*api.Options)
	if c.opts != nil {
		opts = append(opts, c.opts)
	}
	r := rigs(t, opts...)
	if c.store != nil {
		c.store(r.Store)
	}
	a := c.call(r)
	p := a.Problem(t)
	if a.Status != c.status || p.ErrorCode != c.code {
		t.Errorf("got %d %s, want %d %s; body %s", a.Status, p.ErrorCode, c.status, c.code, a.Body)
	}
	if p.Type != "urn:urifilter:problem:"+c.code {
		t.Errorf("type: got %q", p.Type)
	}
	checkDetail(t, r, c, p.Detail)
	if name, value, ok := strings.Cut(c.header, ": "); ok && a.Header.Get(name) != value {
		t.Errorf("header %s: got %q, want %q", name, a.Header.Get(name), value)
	}
	r.Store.Fail(nil)
	f, err := r.Engine.Lookup("uri")
	if err != nil {
		t.Fatal(err)
	}
	if st := f.Stats(); st.Items != 0 {
		t.Errorf("%d items are remembered of a request that was refused", st.Items)
	}
}

// Faults of the daemon go to its log, and not to the client.
func checkDetail(t *testing.T, r *apitest.Rig, c errorCase, detail string) {
	t.Helper()
	logged := c.status == 500 && c.code != problem.ArchiveFailed || c.code == problem.StoreFailed || c.code == problem.NoStorage
	switch {
	case !logged && !strings.Contains(detail, c.detail):
		t.Errorf("detail: got %q, want %q in it", detail, c.detail)
	case logged && detail != "":
		t.Errorf("detail tells the client: %q", detail)
	case logged && (!strings.Contains(r.Log.String(), c.detail) || !strings.Contains(r.Log.String(), "level=ERROR")):
		t.Errorf("log lacks %q:\n%s", c.detail, r.Log)
	}
}

func TestProblemsSayWhere(t *testing.T) {
	r := apitest.New(t)
	p := r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a","b",""]}`).Problem(t)
	if p.Index == nil || *p.Index != 2 || p.Offset == nil || *p.Offset != 39 {
		t.Errorf("empty item: got index %v, offset %v", p.Index, p.Offset)
	}
	p = r.Post("/api/v1/filter", `{"filter_typeid":"x","uri_list":[]}`).Problem(t)
	if !slices.Equal(p.Known, []string{"ip", "uri"}) {
		t.Errorf("unknown filter: known %v", p.Known)
	}
	p = r.Post("/api/v1/filter?filter_typeid=1", "1\n\n{]\n", "Content-Type", "application/x-ndjson").Problem(t)
	if p.Index == nil || *p.Index != 2 {
		t.Errorf("bad line: got index %v, want 2", p.Index)
	}
}

// Faults in a requested filter are described in plain words, with an example or with both
// values.
func TestSpecFaultsSayWhatIsWanted(t *testing.T) {
	r := apitest.New(t)
	if a := r.Do("PUT", "/api/v1/filters/pages", `{"capacity":1000,"error_rate":0.001}`, "Content-Type", apitest.JSONType); a.Status != 201 {
		t.Fatalf("got %d %s", a.Status, a.Body)
	}
	for _, test := range []struct{ name, body, code, detail string }{
		{"x", `{"capacity":"many"}`, "wrong_type", "capacity: a text: want a whole number of items, such as 10000000"},
		{"x", `{"capacity":0}`, "invalid_filter", "capacity: 0: want a whole number of items, such as 10000000, and more than 0"},
		{"x", `{"capacity":-1}`, "invalid_filter", "capacity: -1: want a whole number of items, such as 10000000, and more than 0"},
		{"x", `{"capacity":99999999999999999999999}`, "invalid_filter", "capacity: 99999999999999999999999: want a whole number of items, such as 10000000, and less than that"},
		{"x", `{"capacity":1.5}`, "wrong_type", "capacity: 1.5: want a whole number of items, such as 10000000"},
		{"x", `{"error_rate":[]}`, "wrong_type", "error_rate: a list: want a number, such as 0.0001"},
		{"x", `{"on_full":true}`, "wrong_type", `on_full: true or false: want a text, such as "warn"`},
		{"x", `{"error_rate":2}`, "invalid_filter", "error_rate: 2: want 1e-06 to 0.5, such as 0.0001"},
		{"x", `{"capacity":18446744073709551615}`, "invalid_filter", "capacity: 18446744073709551615: want 1 to 1099511627776 items, such as 10000000"},
		{"pages", `{"capacity":2000}`, "filter_conflict", "filter pages: filter exists with other parameters: capacity is 1000, not 2000"},
		{"pages", `{"error_rate":0.01,"on_full":"reject"}`, "filter_conflict", "filter pages: filter exists with other parameters: error_rate is 0.001, not 0.01, on_full is grow, not reject"},
		{"pages", `{"kind":"timing","expire":60}`, "filter_conflict", "filter pages: filter exists with other parameters: kind is bloom, not timing"},
		{"pages", `{"id":77}`, "filter_conflict", "id is 1000, not 77"},
	} {
		p := r.Do("PUT", "/api/v1/filters/"+test.name, test.body, "Content-Type", apitest.JSONType).Problem(t)
		if p.ErrorCode != test.code || !strings.HasSuffix(p.Detail, test.detail) {
			t.Errorf("%s %s:\ngot  %s %s\nwant %s %s", test.name, test.body, p.ErrorCode, p.Detail, test.code, test.detail)
		}
	}
}

func TestPanicIsSurvived(t *testing.T) {
	r := apitest.New(t)
	r.Store.BeforeEachBatch(func() { panic("out of cheese") })
	a := r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`)
	if p := a.Problem(t); a.Status != 500 || p.ErrorCode != "internal" || strings.Contains(a.Body, "cheese") {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
	if log := r.Log.String(); !strings.Contains(log, "out of cheese") || !strings.Contains(log, "apitest/store.go") {
		t.Errorf("log has no panic with its stack:\n%s", log)
	}
	r.Store.BeforeEachBatch(func() {})
	apitest.WantBody(t, r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`), `{"uri_list":["a"],"total":1,"duplicates":0}`+"\n")
}

// TestPanicWithoutAClient: a call that panics is counted to its end, although nobody can be told.
func TestPanicWithoutAClient(t *testing.T) {
	r := apitest.New(t)
	r.Store.BeforeEachBatch(func() { panic("out of cheese") })
	req := httptest.NewRequest("POST", "/api/v1/filter", strings.NewReader(`{"filter_typeid":1,"uri_list":["a"]}`))
	req.Host = "127.0.0.1"
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("panicked with %v, want ErrAbortHandler", p)
			}
		}()
		r.API.ServeHTTP(gone{httptest.NewRecorder()}, req)
	}()
	if log := r.Log.String(); !strings.Contains(log, "out of cheese") {
		t.Errorf("no panic:\n%s", log)
	}
	if metrics := r.Scrape(); !strings.Contains(metrics, "\nurifilter_requests_in_flight 1\n") { // that of the metrics
		t.Errorf("still in flight:\n%s", metrics)
	}
}

// gone is an answer whose client has left.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An escaped slash is part of a filter's name, which cannot have one; it does not begin a verb.
func TestSlashInANameIsPartOfIt(t *testing.T) {
	r := apitest.New(t)
	for call, want := range map[string]string{
		"PUT /api/v1/filters/a%2Fb":                       `422 "error_code":"invalid_filter"`,
		"GET /api/v1/filters/uri%2Fb":                     `404 "error_code":"unknown_filter"`,
		"POST /api/v1/filters/uri%2Fclear?confirm=uri":    `405 "error_code":"method_not_allowed"`,
		"POST /api/v1/filters/%75ri%2D/clear?confirm=uri": `404 "error_code":"unknown_filter"`,
		"GET /api/v1/filters/%75ri":                       `200 "name":"uri"`,
		"GET /api/v1/filters/uri%21":                      `404 "error_code":"unknown_filter"`,
	} {
		method, path, _ := strings.Cut(call, " ")
		req, err := http.NewRequest(method, r.HTTP.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.HTTP.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		status, part, _ := strings.Cut(want, " ")
		if strconv.Itoa(resp.StatusCode) != status || !strings.Contains(string(text), part) {
			t.Errorf("%s: %d %s, want %s", call, resp.StatusCode, text, want)
		}
	}
}
