package api

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cr-clawer/urifilter/daemon/internal/problem"
)

// Every refusal has its status and code, and leaves the item a unseen.
func TestErrors(t *testing.T) {
	tested := map[string]bool{}
	cases := errorCases()
	maps.Copy(cases, archiveCases())
	maps.Copy(cases, timingCases())
	for name, c := range cases {
		tested[c.code] = true
		t.Run(name, func(t *testing.T) {
			if c.waits {
				synctest.Test(t, func(t *testing.T) { c.check(t, newPipedRig) })
				return
			}
			c.check(t, newRig)
		})
	}
	for _, e := range problem.Table() {
		if !tested[e.Code] {
			t.Errorf("no case for %s", e.Code)
		}
	}
}

func (c errorCase) check(t *testing.T, rigs func(testing.TB, ...func(*Options)) *rig) {
	var opts []func(*Options)
	if c.opts != nil {
		opts = append(opts, c.opts)
	}
	r := rigs(t, opts...)
	if c.store != nil {
		c.store(r.store)
	}
	a := c.call(r)
	p := a.problem(t)
	if a.status != c.status || p.ErrorCode != c.code {
		t.Errorf("got %d %s, want %d %s; body %s", a.status, p.ErrorCode, c.status, c.code, a.body)
	}
	if p.Type != "urn:urifilter:problem:"+c.code {
		t.Errorf("type: got %q", p.Type)
	}
	checkDetail(t, r, c, p.Detail)
	if name, value, ok := strings.Cut(c.header, ": "); ok && a.header.Get(name) != value {
		t.Errorf("header %s: got %q, want %q", name, a.header.Get(name), value)
	}
	r.store.fail(nil)
	f, err := r.api.engine.Lookup("uri")
	if err != nil {
		t.Fatal(err)
	}
	if st := f.Stats(); st.Items != 0 {
		t.Errorf("%d items are remembered of a request that was refused", st.Items)
	}
}

// What is the daemon's fault is told to its log, and not to the client.
func checkDetail(t *testing.T, r *rig, c errorCase, detail string) {
	t.Helper()
	logged := c.status == 500 && c.code != problem.ArchiveFailed || c.code == problem.StoreFailed || c.code == problem.NoStorage
	switch {
	case !logged && !strings.Contains(detail, c.detail):
		t.Errorf("detail: got %q, want %q in it", detail, c.detail)
	case logged && detail != "":
		t.Errorf("detail tells the client: %q", detail)
	case logged && (!strings.Contains(r.log.String(), c.detail) || !strings.Contains(r.log.String(), "level=ERROR")):
		t.Errorf("log lacks %q:\n%s", c.detail, r.log)
	}
}

func TestProblemsSayWhere(t *testing.T) {
	r := newRig(t)
	p := r.post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a","b",""]}`).problem(t)
	if p.Index == nil || *p.Index != 2 || p.Offset == nil || *p.Offset != 39 {
		t.Errorf("empty item: got index %v, offset %v", p.Index, p.Offset)
	}
	p = r.post("/api/v1/filter", `{"filter_typeid":"x","uri_list":[]}`).problem(t)
	if !slices.Equal(p.Known, []string{"ip", "uri"}) {
		t.Errorf("unknown filter: known %v", p.Known)
	}
	p = r.post("/api/v1/filter?filter_typeid=1", "1\n\n{]\n", "Content-Type", "application/x-ndjson").problem(t)
	if p.Index == nil || *p.Index != 2 {
		t.Errorf("bad line: got index %v, want 2", p.Index)
	}
}

// What is wrong with a filter that is asked for is said in plain words, with an example or
// with both values.
func TestSpecFaultsSayWhatIsWanted(t *testing.T) {
	r := newRig(t)
	if a := r.do("PUT", "/api/v1/filters/pages", `{"capacity":1000,"error_rate":0.001}`, "Content-Type", jsonType); a.status != 201 {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	for _, test := range []struct{ name, body, code, detail string }{
		{"x", `{"capacity":"many"}`, "wrong_type", "capacity: a text: want a whole number of items, such as 10000000"},
		{"x", `{"capacity":1.5}`, "wrong_type", "capacity: 1.5: want a whole number of items, such as 10000000"},
		{"x", `{"error_rate":[]}`, "wrong_type", "error_rate: a list: want a number, such as 0.0001"},
		{"x", `{"on_full":true}`, "wrong_type", `on_full: true or false: want a text, such as "warn"`},
		{"x", `{"error_rate":2}`, "invalid_filter", "error_rate: 2: want 1e-06 to 0.5, such as 0.0001"},
		{"x", `{"capacity":18446744073709551615}`, "invalid_filter", "capacity: 18446744073709551615: want 1 to 1099511627776 items, such as 10000000"},
		{"pages", `{"capacity":2000}`, "filter_conflict", "filter pages: filter exists with other parameters: capacity is 1000, not 2000"},
		{"pages", `{"error_rate":0.01,"on_full":"reject"}`, "filter_conflict", "filter pages: filter exists with other parameters: error_rate is 0.001, not 0.01, on_full is warn, not reject"},
		{"pages", `{"kind":"timing","expire":60}`, "filter_conflict", "filter pages: filter exists with other parameters: kind is bloom, not timing"},
		{"pages", `{"id":77}`, "filter_conflict", "id is 1000, not 77"},
	} {
		p := r.do("PUT", "/api/v1/filters/"+test.name, test.body, "Content-Type", jsonType).problem(t)
		if p.ErrorCode != test.code || !strings.HasSuffix(p.Detail, test.detail) {
			t.Errorf("%s %s:\ngot  %s %s\nwant %s %s", test.name, test.body, p.ErrorCode, p.Detail, test.code, test.detail)
		}
	}
}

func TestPanicIsSurvived(t *testing.T) {
	r := newRig(t)
	r.store.beforeEachBatch(func() { panic("out of cheese") })
	a := r.post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`)
	if p := a.problem(t); a.status != 500 || p.ErrorCode != "internal" || strings.Contains(a.body, "cheese") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if log := r.log.String(); !strings.Contains(log, "out of cheese") || !strings.Contains(log, "memstore_test.go") {
		t.Errorf("log has no panic with its stack:\n%s", log)
	}
	r.store.beforeEachBatch(func() {})
	wantBody(t, r.post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`), `{"uri_list":["a"],"total":1,"duplicates":0}`+"\n")
}
