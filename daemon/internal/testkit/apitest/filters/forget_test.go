package filters_test

import (
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// A forgotten item is new once, by its canonical form, and stays forgotten when the store is
// reopened; a caller that may not forget is told why.
func TestForget(t *testing.T) {
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
			const abc = `{"filter_typeid":"jobs","uri_list":["http://a.example/",{"b":1},"c"]}`
			r.Post("/api/v1/filter", abc)
			apitest.WantBody(t, r.Post("/api/v1/forget", `{"filter_typeid":"jobs","uri_list":["HTTP://A.example:80/",{"b":1.0},{"b":1},"d"]}`), `{"forgotten":2}`+"\n")
			apitest.WantBody(t, r.Post("/api/v1/forget", `{"filter_typeid":"jobs","uri_list":["",{"b":1}],"invalid":"skip"}`),
				`{"forgotten":0,"invalid":1,"invalid_items":[{"index":0,"error_code":"empty_item","detail":"empty string"}]}`+"\n")
			if text := r.Scrape(); !strings.Contains(text, `urifilter_forgotten_items_total{filter="jobs"} 2`) {
				t.Errorf("metrics:\n%s", text)
			}
			reopen()
			apitest.WantBody(t, r.Post("/api/v1/check", abc), `{"new":[true,true,false]}`+"\n")
			apitest.WantBody(t, r.Post("/api/v1/filter", abc), `{"uri_list":["http://a.example/",{"b":1}],"total":3,"duplicates":1}`+"\n")
			apitest.WantBody(t, r.Post("/api/v1/filter", abc), `{"uri_list":[],"total":3,"duplicates":3}`+"\n")
			reopen()
			apitest.WantBody(t, r.Post("/api/v1/check", abc), `{"new":[false,false,false]}`+"\n")
			for call, want := range map[string]string{
				`{"filter_typeid":1,"uri_list":["a"]}`:                         "forget_not_supported",
				`{"filter_typeid":"none","uri_list":["a"]}`:                    "unknown_filter",
				`{"filter_typeid":"jobs","uri_list":["http://a.example/",""]}`: "empty_item",
				`{"filter_typeid":"jobs","uri_list":["a"],"expire":-1}`:        "expire_",
				`{"filter_typeid":"jobs"}`:                                     "missing_field",
				`{"filter_typeid":"jobs","uri_list":["http://a.example/",}`:    "malformed_json",
			} {
				if a := r.Post("/api/v1/forget", call); a.Status < 400 || !strings.Contains(a.Body, want) {
					t.Errorf("%s: %d %s, want %s", call, a.Status, a.Body, want)
				}
			}
			if a := r.Post("/api/v1/forget", "c\n", "Content-Type", "text/plain"); a.Status != 415 {
				t.Errorf("lines: %d %s", a.Status, a.Body)
			}
			apitest.WantBody(t, r.Post("/api/v1/check", abc), `{"new":[false,false,false]}`+"\n")
			r.HTTP.Close()
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestForgetHasAScope(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	if a := r.Do("PUT", "/api/v1/filters/jobs", `{"kind":"timing","expire":60}`, "Authorization", "Bearer secret-admin"); a.Status != 201 {
		t.Fatal(a)
	}
	for token, want := range map[string]int{"read": 403, "filter": 403, "forget": 422, "admin": 422, "none": 401} {
		a := r.Post("/api/v1/forget", `{"filter_typeid":1,"uri_list":["a"]}`, "Authorization", "Bearer secret-"+token)
		if a.Status != want { // 422: it is of the kind bloom
			t.Errorf("%s: %d %s, want %d", token, a.Status, a.Body, want)
		}
	}
	if a := r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`, "Authorization", "Bearer secret-forget"); a.Status != 403 {
		t.Errorf("filter with the scope forget: %d %s", a.Status, a.Body)
	}
}
