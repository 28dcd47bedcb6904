// Package status is the page of the filter daemon for people: its filters, what deserves attention, and the history of the
// last minutes, which it samples itself.
//
// It changes nothing: actions are calls of the API, see package page. It never shows an item.
package status

import (
	"context"
	"embed"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/tally"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/page"
)

// fresh is how long browsers share one look at the filters.
const fresh = time.Second

// Options say what the page shows. All but those said otherwise are required.
type Options struct {
	Engine  *engine.Engine
	Tallies *tally.Tallies
	Guard   *access.Guard
	API     http.Handler // of this daemon
	// Ready returns why the daemon should get no requests now; nil if it should.
	Ready   func(context.Context) error
	Version string
	Log     func(error)
	// Read and Admin are the scopes for looking and for changing.
	Read, Admin string
	// About describes the daemon's parts. Optional.
	About About
	Now   func() time.Time // Default: time.Now
}

// About are facts from the settings.
type About struct {
	Store string // where filters are kept, in words
	RESP  string // address of the port for Redis clients; "": there is none
	// WritebackEvery is the interval of writebacks; 0: something else begins them.
	WritebackEvery time.Duration
	// Archive is nil if there is none.
	Archive Archive
}

// Archive is what the page asks about the archive; a *backup.Link is one.
type Archive interface {
	Connected() bool
	Underway() []backup.Underway
}

// Status is the page. It is an http.Handler, safe for concurrent use.
type Status struct {
	Options
	*page.Site
	history history
	look    page.Cached[*look]
}

//go:embed *.html
var templates embed.FS

// New makes a Status.
func New(o Options) *Status {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Status{Options: o, look: page.Cached[*look]{For: fresh}, history: newHistory()}
	s.Site = page.New(page.Options{
		Program: "urifilter", Version: o.Version, Templates: fs.FS(templates), Texts: texts, Guard: o.Guard, Read: o.Read, API: o.API, Now: o.Now, Log: o.Log, Changed: s.Forget,
		Explain: func(err error) (int, string, string) {
			f := problem.Of(err)
			entry := problem.ByCode()[f.Code]
			return entry.Status, entry.Title, f.Detail
		},
	})
	s.Page("/{$}", "filters", s.filters)
	s.Page(pathFilters+"{name}", "filter", s.filter)
	for _, a := range actions() {
		a.Scope = o.Admin
		s.Act(a)
	}
	return s
}

const (
	pathFilters = page.Prefix + "filters/"
	pathAPI     = "/api/v1/filters/"
)

// actions are what a caller with the scope admin may do to a filter.
func actions() []page.Action {
	back := func(name string) string { return pathFilters + page.Escaped(name) }
	home := func(string) string { return "/" }
	post := func(verb string) func(string, url.Values) (string, string, any) {
		return func(name string, _ url.Values) (string, string, any) {
			return http.MethodPost, pathAPI + page.Escaped(name) + "/" + verb, nil
		}
	}
	var kinds []string
	for _, k := range configs.Kinds() {
		kinds = append(kinds, k.Name)
	}
	return []page.Action{
		{Path: page.Prefix + "create", Text: "create", Back: home, Call: create, Fields: []page.Field{
			{Name: "name", Needed: true}, {Name: "kind", Value: kinds[0], Options: kinds}, {Name: "capacity", Number: true}, {Name: "error_rate", Number: true}, {Name: "expire"},
		}},
		{Path: pathFilters + "{name}/writeback", Text: "writeback", Back: back, Call: post("writeback")},
		{Path: pathFilters + "{name}/restore", Text: "restore", Back: back, Fields: []page.Field{{Name: "version"}}, Call: func(name string, form url.Values) (string, string, any) {
			query := ""
			if version := form.Get("version"); version != "" {
				query = "?version=" + url.QueryEscape(version)
			}
			return http.MethodPost, pathAPI + page.Escaped(name) + "/restore" + query, nil
		}},
		{Path: pathFilters + "{name}/clear", Text: "clear", Back: back, Danger: true, Call: func(name string, _ url.Values) (string, string, any) {
			return http.MethodPost, pathAPI + page.Escaped(name) + "/clear?confirm=" + url.QueryEscape(name), nil
		}},
		{Path: pathFilters + "{name}/drop", Text: "drop", Back: home, Danger: true, Call: func(name string, _ url.Values) (string, string, any) {
			return http.MethodDelete, pathAPI + page.Escaped(name) + "?confirm=" + url.QueryEscape(name), nil
		}},
	}
}

// create is the call that makes a filter. What was left empty is left to the daemon.
func create(_ string, form url.Values) (method, path string, body any) {
	spec := map[string]any{}
	for _, key := range []string{"kind", "capacity", "error_rate", "expire"} {
		text := form.Get(key)
		if text == "" {
			continue
		}
		spec[key] = text
		if n, err := strconv.ParseFloat(text, 64); err == nil && key != "kind" && !math.IsInf(n, 0) && !math.IsNaN(n) {
			spec[key] = n
			if whole, err := strconv.ParseUint(text, 10, 64); err == nil {
				spec[key] = whole
			}
		}
	}
	return http.MethodPut, pathAPI + page.Escaped(form.Get("name")), spec
}
