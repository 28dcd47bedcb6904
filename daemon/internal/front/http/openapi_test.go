package http_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

func TestOpenAPIIsValid(t *testing.T) {
	r := apitest.New(t)
	if err := r.Doc.Validate(context.Background()); err != nil { // examples too
		t.Error(err)
	}
	if a := r.Do("GET", "/openapi.yaml", ""); a.Body != string(api.OpenAPI()) || a.Header.Get("Content-Type") != "application/yaml" {
		t.Errorf("served: %d bytes of %s", len(a.Body), a.Header.Get("Content-Type"))
	}
}

// The error table and openapi.yaml have the same codes, under the same statuses.
func TestOpenAPIKnowsTheErrorTable(t *testing.T) {
	r := apitest.New(t)
	var codes []string
	for _, e := range problem.Table() {
		codes = append(codes, e.Code)
		if e.Title == "" || !strings.HasSuffix(e.Title, ".") || http.StatusText(e.Status) == "" {
			t.Errorf("%s: title %q, status %d", e.Code, e.Title, e.Status)
		}
	}
	enum := r.Doc.Components.Schemas["Problem"].Value.Properties["error_code"].Value.Enum
	if len(enum) != len(codes) {
		t.Errorf("openapi.yaml has %d codes, the table %d", len(enum), len(codes))
	}
	for _, code := range enum {
		if !slices.Contains(codes, code.(string)) {
			t.Errorf("openapi.yaml has %v, the table has not", code)
		}
	}
	named := map[string]bool{}
	for path, item := range r.Doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status, resp := range op.Responses.Map() {
				for _, code := range apitest.ErrorCodesOf(resp) {
					named[code] = true
					if status != statusOf(r, code) {
						t.Errorf("%s %s: %s under %s, the table says %s", method, path, code, status, statusOf(r, code))
					}
				}
				checkExample(t, r, method+" "+path, status, resp)
			}
		}
	}
	for _, code := range codes {
		if !named[code] {
			t.Errorf("no answer in openapi.yaml names %s", code)
		}
	}
}

func statusOf(r *apitest.Rig, code string) string {
	return strconv.Itoa(problem.ByCode()[code].Status)
}

// checkExample checks that the example of an error is one that the table could give.
func checkExample(t *testing.T, r *apitest.Rig, where, status string, resp *openapi3.ResponseRef) {
	t.Helper()
	media := resp.Value.Content.Get("application/problem+json")
	if media == nil {
		return
	}
	example := media.Example.(map[string]any)
	code := example["error_code"].(string)
	entry := problem.ByCode()[code]
	if strconv.Itoa(entry.Status) != status || entry.Title != example["title"] || !slices.Contains(apitest.ErrorCodesOf(resp), code) {
		t.Errorf("%s: example of %s is %v, the table says %+v", where, status, example, entry)
	}
}

// Every route and method is in openapi.yaml, and nothing else.
func TestOpenAPIKnowsTheRoutes(t *testing.T) {
	r := apitest.New(t)
	routes := r.API.Routes()
	for path, methods := range routes {
		item := r.Doc.Paths.Find(path)
		if item == nil {
			t.Errorf("openapi.yaml lacks %s", path)
			continue
		}
		for _, method := range methods {
			if item.GetOperation(method) == nil {
				t.Errorf("openapi.yaml lacks %s %s", method, path)
			}
		}
		if got, want := len(item.Operations()), len(methods); got != want {
			t.Errorf("%s: %d operations in openapi.yaml, %d in the daemon", path, got, want)
		}
	}
	if got, want := r.Doc.Paths.Len(), len(routes); got != want {
		t.Errorf("%d paths in openapi.yaml, %d in the daemon", got, want)
	}
}

// Calls of the API take the parameters that openapi.yaml has and refuse any other, which may be mistyped.
func TestOpenAPIKnowsTheParameters(t *testing.T) {
	r := apitest.New(t)
	for path, item := range r.Doc.Paths.Map() {
		for method, op := range item.Operations() {
			if !strings.HasPrefix(path, "/api/") {
				continue
			}
			var want []string
			for _, p := range op.Parameters {
				if p.Value.In == "query" {
					want = append(want, p.Value.Name)
				}
			}
			slices.Sort(want)
			p := r.Do(method, strings.Replace(path, "{name}", "uri", 1)+"?zzz=1", "a\n", "Content-Type", apitest.TextType).Problem(t)
			if p.ErrorCode != "unknown_parameter" || !slices.Equal(p.Known, want) {
				t.Errorf("%s %s: %s, known: %q, in openapi.yaml: %q", method, path, p.ErrorCode, p.Known, want)
			}
		}
	}
	// Probes, browsers and callers of the first service may add what they like, and clients what keeps caches away.
	for _, path := range []string{"/livez?x", "/readyz?x&verbose", "/metrics?x", "/openapi.yaml?x", "/?x", "/api/v1/filters?_=1764381600"} {
		if a := r.Do("GET", path, ""); a.Status != 200 {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := r.Post("/api/v1/filter?filter=uri&_=1&_=2", "a\n", "Content-Type", apitest.TextType); a.Status != 200 {
		t.Errorf("a stream: %d %s", a.Status, a.Body)
	}
	if a := r.Post("/cr-clawr/uri_filter/api/uri_filter?x", `{"filter_typeid":1,"uri_list":["a"]}`); a.Status != 200 {
		t.Errorf("the old path: %d %s", a.Status, a.Body)
	}
}

// The examples of requests do what they promise.
func TestOpenAPIExamplesWork(t *testing.T) {
	r := apitest.New(t)
	r.Put("uri_generator", "")
	r.Put("news", `{"kind":"timing"}`)
	r.Put("jobs", `{"kind":"exact"}`)
	r.Put("pages", `{"kind":"simhash"}`)
	op := r.Doc.Paths.Find("/api/v1/filter").Post
	for _, path := range []string{"/api/v1/filter", "/api/v1/forget", "/api/v1/near", "/api/v1/reserve", "/api/v1/commit", "/api/v1/release"} {
		for name, example := range r.Doc.Paths.Find(path).Post.RequestBody.Value.Content["application/json"].Examples {
			body, err := json.Marshal(example.Value.Value)
			if err != nil {
				t.Fatal(err)
			}
			if a := r.Post(path, string(body)); a.Status != 200 {
				t.Errorf("example %s of %s: %d %s", name, path, a.Status, a.Body)
			}
		}
	}
	for _, kind := range []string{"text/plain", "application/x-ndjson"} {
		body := op.RequestBody.Value.Content[kind].Example.(string)
		if a := r.Post("/api/v1/filter?filter_typeid=uri", body, "Content-Type", kind); a.Status != 200 {
			t.Errorf("example of %s: %d %s", kind, a.Status, a.Body)
		}
	}
	for name, example := range r.Doc.Paths.Find("/api/v1/filters/{name}").Put.RequestBody.Value.Content["application/json"].Examples {
		body, err := json.Marshal(example.Value.Value)
		if err != nil {
			t.Fatal(err)
		}
		if a := r.Put("example_"+name, string(body)); a.Status != 201 {
			t.Errorf("example %s of PUT: %d %s", name, a.Status, a.Body)
		}
	}
}
