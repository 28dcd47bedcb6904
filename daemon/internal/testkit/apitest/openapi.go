package apitest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
)

type openAPISpec struct {
	doc   *openapi3.T
	paths routers.Router
}

// openAPI is openapi.yaml, which is slow to load.
var openAPI = sync.OnceValues(func() (spec openAPISpec, err error) {
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.FileBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.FileBodyDecoder)
	if spec.doc, err = openapi3.NewLoader().LoadFromData(api.OpenAPI()); err == nil {
		spec.paths, err = legacy.NewRouter(spec.doc)
	}
	return spec, err
})

// validate checks an answer, and a request that succeeded, against openapi.yaml.
func (r *Rig) validate(req *http.Request, body string, a Answer) {
	r.T.Helper()
	if req.Method == http.MethodHead {
		return
	}
	req = req.Clone(context.Background())
	req.URL.Path = strings.TrimSuffix(req.URL.Path, "/")
	if req.URL.Path == "" {
		req.URL.Path = "/"
	}
	req.URL.Host, req.URL.Scheme, req.Host = "", "", ""
	req.Body = io.NopCloser(strings.NewReader(body))
	route, params, err := r.paths.FindRoute(req)
	if err != nil {
		if a.Status != 404 && a.Status != 405 {
			r.T.Errorf("%s %s: %v, answered %d", req.Method, req.URL.Path, err, a.Status)
		}
		r.validateProblem(a)
		return
	}
	kind, coded := req.Header.Get("Content-Type"), req.Header.Get("Content-Encoding")
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		ExcludeRequestBody: body == "" || coded != "" || !strings.Contains("application/json text/plain application/x-ndjson", kind) || kind == "",
	}}
	if a.Status < 400 {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			r.T.Errorf("%s %s: accepted, but not as openapi.yaml says: %v", req.Method, req.URL.Path, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.Status, Header: a.Header,
		Body: io.NopCloser(strings.NewReader(a.Body)), Options: &openapi3filter.Options{IncludeResponseStatus: true}}
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		r.T.Errorf("%s %s: answer is not as openapi.yaml says: %v", req.Method, req.URL.Path, err)
	}
	if described := route.Operation.Responses.Status(a.Status); described != nil {
		for _, has := range []http.Header{a.Header, a.Trailer} {
			for name := range has {
				if strings.HasPrefix(name, "Urifilter-") && name != "Urifilter-Error" && described.Value.Headers[name] == nil {
					r.T.Errorf("%s %s: openapi.yaml says nothing of the header %s", req.Method, req.URL.Path, name)
				}
			}
		}
	}
	if a.Status >= 400 && a.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		r.validateProblem(a)
		r.validateCode(route, a)
	}
}

func (r *Rig) validateProblem(a Answer) {
	r.T.Helper()
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		r.T.Errorf("Content-Type of a %d: %q", a.Status, got)
	}
	var v any
	if err := json.Unmarshal([]byte(a.Body), &v); err != nil {
		r.T.Errorf("%d: %v: %q", a.Status, err, a.Body)
		return
	}
	if err := r.Doc.Components.Schemas["Problem"].Value.VisitJSON(v); err != nil {
		r.T.Errorf("%d: not a Problem: %v", a.Status, err)
	}
	if p := a.Problem(r.T); p.Status != a.Status {
		r.T.Errorf("status %d, in the problem %d", a.Status, p.Status)
	}
}

// validateCode checks that the operation names the error code under the status.
func (r *Rig) validateCode(route *routers.Route, a Answer) {
	r.T.Helper()
	code := a.Problem(r.T).ErrorCode
	if !slices.Contains(ErrorCodesOf(route.Operation.Responses.Status(a.Status)), code) {
		r.T.Errorf("%s %s: openapi.yaml does not name %s under %d", route.Method, route.Path, code, a.Status)
	}
}

// ErrorCodesOf returns the error codes that openapi.yaml names under a status.
func ErrorCodesOf(resp *openapi3.ResponseRef) []string {
	var codes []string
	if resp == nil {
		return nil
	}
	list, _ := resp.Value.Extensions["x-error-codes"].([]any)
	for _, code := range list {
		codes = append(codes, code.(string))
	}
	return codes
}
