package http

import (
	"cmp"
	_ "embed"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cr-clawer/urifilter/daemon/internal/program/page"
)

const (
	pathAPI       = "/api/"
	pathFilter    = "/api/v1/filter"
	pathOldFilter = "/cr-clawr/uri_filter/api/uri_filter" // callers of the first service know it
	pathCheck     = "/api/v1/check"
	pathForget    = "/api/v1/forget"
	pathNear      = "/api/v1/near"
	pathReserve   = "/api/v1/reserve"
	pathCommit    = "/api/v1/commit"
	pathRelease   = "/api/v1/release"
	pathFilters   = "/api/v1/filters"
	pathOne       = "/api/v1/filters/{name}"
	pathClear     = "/api/v1/filters/{name}/clear"
	pathMerge     = "/api/v1/filters/{name}/merge"
	pathDigests   = "/api/v1/filters/{name}/digests"
	pathWriteback = "/api/v1/filters/{name}/writeback"
	pathRestore   = "/api/v1/filters/{name}/restore"
	pathPages     = page.Prefix // all pages for people but /
	pathUnknown   = "unknown"   // the label that all unknown paths share
)

// The scopes of tokens.
const (
	scopeRead   = "read"
	scopeFilter = "filter"
	scopeForget = "forget"
	scopeAdmin  = "admin"
)

func scopeIncludes() map[string][]string {
	return map[string][]string{scopeAdmin: {scopeRead, scopeFilter, scopeForget}, scopeFilter: {scopeRead}}
}

// action is what a path does for one method.
type action struct {
	scope string // a token must have it; "": no token is required
	// tokenInBody: without an Authorization header, do itself checks the token, once the
	// body is read.
	tokenInBody bool
	audit       string   // its name in the audit line; "": it has no line
	query       []string // the parameters that it takes, if its path is below pathAPI; other paths take any
	ownQuery    bool     // do itself looks at them: which it takes depends on the body
	do          func(*call) error
}

// The names of calls in audit lines.
const (
	auditCreate    = "create"
	auditDrop      = "drop"
	auditClear     = "clear"
	auditMerge     = "merge"
	auditExport    = "export"
	auditImport    = "import"
	auditWriteback = "writeback"
	auditRestore   = "restore"
)

// route is one path with its metrics.
type route struct {
	path    string // as in openapi.yaml
	actions map[string]action
	allow   string
	*routeMetrics
}

// newRoutes is the table of all paths.
func (s *Server) newRoutes(registry *prometheus.Registry) map[string]*route {
	filter := action{scope: scopeFilter, tokenInBody: true, ownQuery: true, do: (*call).filter}
	scrape := promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	routes := map[string]*route{}
	for path, actions := range map[string]map[string]action{
		pathFilter:          {http.MethodPost: filter},
		pathOldFilter:       {http.MethodPost: filter},
		pathOldFilter + "/": {http.MethodPost: filter},
		pathCheck:           {http.MethodPost: {scope: scopeRead, tokenInBody: true, ownQuery: true, do: (*call).check}},
		pathForget:          {http.MethodPost: {scope: scopeForget, tokenInBody: true, do: (*call).forget}},
		pathNear:            {http.MethodPost: {scope: scopeRead, tokenInBody: true, do: (*call).near}}, // if it remembers: see near
		pathReserve:         {http.MethodPost: {scope: scopeFilter, tokenInBody: true, do: (*call).reserve}},
		pathCommit:          {http.MethodPost: {scope: scopeFilter, tokenInBody: true, do: (*call).commit}},
		pathRelease:         {http.MethodPost: {scope: scopeFilter, tokenInBody: true, do: (*call).releaseItems}},
		pathFilters:         {http.MethodGet: {scope: scopeRead, do: (*call).listFilters}},
		pathOne: {
			http.MethodGet:    {scope: scopeRead, do: (*call).getFilter},
			http.MethodPut:    {scope: scopeAdmin, audit: auditCreate, do: (*call).putFilter},
			http.MethodDelete: {scope: scopeAdmin, audit: auditDrop, query: []string{"confirm"}, do: (*call).dropFilter},
		},
		pathClear: {http.MethodPost: {scope: scopeAdmin, audit: auditClear, query: []string{"confirm"}, do: (*call).clearFilter}},
		pathMerge: {http.MethodPost: {scope: scopeAdmin, audit: auditMerge, query: []string{"from"}, do: (*call).mergeFilter}},
		pathDigests: {
			http.MethodGet:  {scope: scopeAdmin, audit: auditExport, query: []string{"part"}, do: (*call).exportDigests},
			http.MethodPost: {scope: scopeAdmin, audit: auditImport, do: (*call).importDigests},
		},
		pathWriteback:   {http.MethodPost: {scope: scopeAdmin, audit: auditWriteback, do: (*call).writeback}},
		pathRestore:     {http.MethodPost: {scope: scopeAdmin, audit: auditRestore, query: []string{"version"}, do: (*call).restore}},
		"/livez":        {http.MethodGet: {do: (*call).live}},
		"/readyz":       {http.MethodGet: {do: (*call).readiness}},
		"/metrics":      {http.MethodGet: {scope: s.statusScope, do: func(c *call) error { return c.handOver(scrape) }}},
		"/openapi.yaml": {http.MethodGet: {do: (*call).openAPI}},
		"/favicon.ico":  {http.MethodGet: {do: (*call).sendNothing}}, // browsers always ask for it
		"/":             {http.MethodGet: {do: (*call).root}},
		pathPages:       {http.MethodGet: {do: (*call).page}, http.MethodPost: {do: (*call).page}},
		pathUnknown:     {},
	} {
		label := path
		if path == pathOldFilter+"/" {
			label = pathOldFilter
		}
		routes[path] = &route{path: label, actions: actions, allow: allowed(actions), routeMetrics: s.metrics.route(label)}
	}
	return routes
}

func allowed(actions map[string]action) string {
	var methods []string
	for method := range actions {
		methods = append(methods, method)
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// match finds the route of a path, and the value of {name} in it.
func (s *Server) match(u *url.URL) (r *route, name string) {
	if r := s.routes[u.Path]; r != nil && u.Path != pathUnknown {
		return r, ""
	}
	if strings.HasPrefix(u.Path, pathPages) {
		return s.routes[pathPages], ""
	}
	// With RawPath something is escaped that need not be, or a slash, which then belongs to the name.
	rest, ok := strings.CutPrefix(cmp.Or(u.RawPath, u.Path), pathFilters+"/")
	if !ok {
		return s.routes[pathUnknown], ""
	}
	name, verb, deeper := strings.Cut(rest, "/")
	if u.RawPath != "" {
		var err error
		if name, err = url.PathUnescape(name); err != nil { // package url has done it before
			return s.routes[pathUnknown], ""
		}
	}
	switch {
	case name == "":
	case !deeper:
		return s.routes[pathOne], name
	case verb == "clear":
		return s.routes[pathClear], name
	case verb == "merge":
		return s.routes[pathMerge], name
	case verb == "digests":
		return s.routes[pathDigests], name
	case verb == "writeback":
		return s.routes[pathWriteback], name
	case verb == "restore":
		return s.routes[pathRestore], name
	}
	return s.routes[pathUnknown], ""
}

//go:embed openapi.yaml
var openAPIText []byte

// OpenAPI is openapi.yaml, the manual of the interface.
func OpenAPI() []byte { return openAPIText }

func (c *call) openAPI() error { return c.send(http.StatusOK, c.s.header.yaml, openAPIText) }
