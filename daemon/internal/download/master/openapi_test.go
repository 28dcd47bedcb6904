package master

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

type described struct {
	doc   *openapi3.T
	paths routers.Router
}

var openAPI = sync.OnceValues(func() (d described, err error) {
	if d.doc, err = openapi3.NewLoader().LoadFromData(openAPIText); err == nil {
		d.paths, err = legacy.NewRouter(d.doc) // validates, too
	}
	return d, err
})

// asDescribed returns in what an answer differs from openapi.yaml. Every call of this package's tests passes it.
func asDescribed(req *http.Request, resp *http.Response, text []byte) error {
	d, err := openAPI()
	if err != nil {
		return err
	}
	asked := req.Clone(context.Background())
	asked.URL.Host, asked.URL.Scheme, asked.Host, asked.Body = "", "", "", nil
	route, params, err := d.paths.FindRoute(asked)
	if err != nil {
		if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed {
			return visit(d.doc.Components.Schemas["Problem"], text)
		}
		return err
	}
	described := route.Operation.Responses.Status(resp.StatusCode)
	if described == nil {
		return fmt.Errorf("status %d is not described", resp.StatusCode)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-ndjson") {
		for line := range bytes.Lines(text) {
			if err := visit(described.Value.Content.Get("application/x-ndjson").Schema, line); err != nil {
				return err
			}
		}
		return nil
	}
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(text)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: resp.StatusCode == http.StatusNoContent},
	})
}

func visit(schema *openapi3.SchemaRef, text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return schema.Value.VisitJSON(value)
}

// Every call and every code is in openapi.yaml, and nothing else is.
func TestOpenAPIKnowsTheCalls(t *testing.T) {
	t.Parallel()
	d, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.doc.Validate(t.Context()); err != nil { // examples, too
		t.Error(err)
	}
	var want, got []string
	r := newRig(t)
	for pattern := range r.master.calls() {
		want = append(want, strings.TrimSuffix(pattern, "{$}"))
	}
	for path, item := range d.doc.Paths.Map() {
		for method := range item.Operations() {
			got = append(got, method+" "+path)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("openapi.yaml has\n%s\nthe master\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	want, got = nil, nil
	for code := range codes() {
		want = append(want, code)
	}
	for _, code := range d.doc.Components.Schemas["Problem"].Value.Properties["error_code"].Value.Enum {
		got = append(got, code.(string))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("codes in openapi.yaml: %q, in the master: %q", got, want)
	}
	r.want(200, "openapi: 3.0.3", "GET", "/openapi.yaml", "")
}

// Calls of the API take the parameters that openapi.yaml has and refuse any other, which may be mistyped.
func TestOpenAPIKnowsTheParameters(t *testing.T) {
	t.Parallel()
	d, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			if !strings.HasPrefix(path, "/api/") {
				continue
			}
			known := []string{}
			for _, p := range op.Parameters {
				if p.Value.In == "query" {
					known = append(known, p.Value.Name)
				}
			}
			_, text := r.do(method, strings.NewReplacer("{name}", "a", "{task}", "1").Replace(path)+"?zzz=1", "")
			p := struct {
				ErrorCode string `json:"error_code"`
				Known     []string
			}{Known: []string{}}
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				t.Fatal(err)
			}
			slices.Sort(known)
			slices.Sort(p.Known)
			if p.ErrorCode != "unknown_parameter" || !slices.Equal(p.Known, known) {
				t.Errorf("%s %s: %s; in openapi.yaml: %q", method, path, text, known)
			}
		}
	}
	r.want(http.StatusBadRequest, `"stat\"; did you mean state?"`, "GET", "/api/v1/jobs/a/tasks?stat=failed", "")
	r.want(http.StatusBadRequest, "invalid_parameter", "GET", "/api/v1/jobs/a/tasks?state=%zz", "")
	// Probes and browsers may add what they like, and clients what keeps caches away.
	for _, path := range []string{"/livez?x", "/readyz?x", "/metrics?x", "/openapi.yaml?x", "/?x", "/api/v1/jobs?_=1764381600"} {
		r.want(http.StatusOK, "", "GET", path, "")
	}
}
