package filters_test

import (
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// TestCanonicalURIs: one address in several spellings is one item, in lists and streams, for
// filter and check, and is answered as it was sent. Other values are as they are.
func TestCanonicalURIs(t *testing.T) {
	r := apitest.New(t, func(o *api.Options) { o.Defaults = configs.Default().Defaults() })
	for name, body := range map[string]string{
		"safe": `{"canonical":"safe","capacity":10000}`, "crawl": `{"canonical":"crawl","capacity":10000}`,
		"all": `{"canonical":"crawl","canonical_drop":"-","capacity":10000}`, "timed": `{"kind":"timing","expire":3600,"canonical":"crawl"}`,
	} {
		if a := r.Put(name, body); a.Status != 201 {
			t.Fatalf("PUT %s: %d %s", name, a.Status, a.Body)
		}
	}
	const list = `["HTTP://A.example:80/x/../y?b=2&utm_source=1&a=1#f","http://a.example/y?a=1&b=2","http://a.example/y?b=2&utm_source=1&a=1#f",7,7]`
	for name, want := range map[string]string{
		"safe":  `["HTTP://A.example:80/x/../y?b=2&utm_source=1&a=1#f","http://a.example/y?a=1&b=2",7]`,
		"crawl": `["HTTP://A.example:80/x/../y?b=2&utm_source=1&a=1#f",7]`,
		"all":   `["HTTP://A.example:80/x/../y?b=2&utm_source=1&a=1#f","http://a.example/y?a=1&b=2",7]`,
		"timed": `["HTTP://A.example:80/x/../y?b=2&utm_source=1&a=1#f",7]`,
	} {
		a := r.Post("/api/v1/filter", `{"filter":"`+name+`","items":`+list+`}`)
		if !strings.HasPrefix(a.Body, `{"uri_list":`+want+`,"total":5`) {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, want)
		}
		a = r.Do("POST", "/api/v1/check?filter="+name, "http://A.EXAMPLE/y?b=2&utm_source=1&a=1#f\nhttp://a.example/Y\n", "Content-Type", "text/plain")
		if a.Body != "seen\nnew\n" {
			t.Errorf("check of %s: %d %q", name, a.Status, a.Body)
		}
	}
}

// TestPutCanonical: the parameters of a filter stay, and a different form makes a different filter.
func TestPutCanonical(t *testing.T) {
	r := apitest.New(t, func(o *api.Options) { o.Defaults = configs.Default().Defaults() })
	if f := apitest.Info(t, r.Put("pages", `{"canonical":"crawl"}`)); f.Canonical != "crawl" || f.CanonicalDrop != configs.Default().Defaults().CanonicalDrop {
		t.Errorf("made: %+v", f)
	}
	r.Restart(func(o *api.Options) { o.Defaults.CanonicalDrop = "other" })
	for body, want := range map[string]int{
		``: 200, `{"canonical":"crawl"}`: 200,
		`{"canonical":"safe"}`: 409, `{"canonical":"none"}`: 409, `{"canonical":"crawl","canonical_drop":"other"}`: 409,
		`{"canonical":"far"}`: 422, `{"canonical":"safe","canonical_drop":"a"}`: 422, `{"canonical_drop":"a b"}`: 422, `{"canonical":1}`: 400,
	} {
		if a := r.Put("pages", body); a.Status != want {
			t.Errorf("PUT %s: %d %s, want %d", body, a.Status, a.Body, want)
		}
	}
	if a := r.Put("uri", `{"canonical":"none"}`); a.Status != 200 || strings.Contains(a.Body, "canonical") {
		t.Errorf("PUT of a filter without: %d %s", a.Status, a.Body)
	}
	if a := r.Put("uri", `{"canonical":"safe"}`); a.Status != 409 || !strings.Contains(a.Body, "canonical is none, not safe") {
		t.Errorf("PUT of another form: %d %s", a.Status, a.Body)
	}
}
