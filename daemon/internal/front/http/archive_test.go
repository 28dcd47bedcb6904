package http_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

func keeping(err error) func(*api.Options) {
	return func(o *api.Options) { o.Backup = &apitest.Backup{Err: err} }
}

// silent is an engine.Archive that cannot be reached.
type silent struct{ err error }

func (s silent) Newest(context.Context) ([]engine.Archived, error) { return nil, s.err }
func (s silent) LeaveTombstone(context.Context, engine.Spec, bloom.Header, bool) error {
	return s.err
}

// oneStore is a store that holds the filter uri.
type oneStore struct{ *apitest.MemStore }

func (st oneStore) Load(ctx context.Context) (map[engine.Spec]engine.Set, error) {
	spec := engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}}
	set, err := st.Create(ctx, spec, engine.Identity{Seed: 1, Generation: 1, Created: time.Now()})
	return map[engine.Spec]engine.Set{spec: set}, err
}

// waitingFor makes an engine whose filter "later" waits for an archive; tried says
// whether it was already asked in vain.
func waitingFor(tried bool) func(*api.Options) {
	return func(o *api.Options) {
		later := engine.Spec{ID: 9, Name: "later", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}}
		e, err := engine.Open(context.Background(), oneStore{&apitest.MemStore{}}, engine.Settings{
			Filters: []engine.Spec{later}, Archive: silent{errors.New("mongodb://secret-host: gone")}, Log: o.Logger,
		})
		if err != nil {
			panic(err) // of a store in memory
		}
		if tried {
			_ = e.Reconcile(context.Background()) // the archive cannot be asked
		}
		o.Engine = e
	}
}

func archiveCases() map[string]errorCase {
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	writeback := apitest.Request("POST", "/api/v1/filters/uri/writeback", "")
	restore := apitest.Request("POST", "/api/v1/filters/uri/restore?version=v9", "")
	return map[string]errorCase{
		"writeback to nowhere":           {code: "no_archive", status: 409, detail: "mongodb.uri", call: writeback},
		"restore from nowhere":           {code: "no_archive", status: 409, call: restore},
		"writeback of nothing":           {code: "unknown_filter", status: 404, call: apitest.Request("POST", "/api/v1/filters/nope/writeback", "")},
		"writeback, mistyped query":      {code: "unknown_parameter", status: 400, detail: `"version"`, opts: keeping(nil), call: apitest.Request("POST", "/api/v1/filters/uri/writeback?version=1", "")},
		"restore, malformed query":       {code: "invalid_parameter", status: 400, opts: keeping(nil), call: apitest.Request("POST", "/api/v1/filters/uri/restore?%zz", "")},
		"writeback, large body":          {code: "body_too_large", status: 413, opts: keeping(nil), call: apitest.Request("POST", "/api/v1/filters/uri/writeback", strings.Repeat(" ", api.SpecBytes+1))},
		"lease is another daemon's":      {code: "lease_held", status: 409, detail: "uri: held by host-7:42 until 2026-01-02T03:04:05Z", opts: keeping(fmt.Errorf("writeback: %w", &archive.LeaseError{Filter: "uri", Owner: "host-7:42", Until: until})), call: writeback},
		"another call is at it":          {code: "lease_held", status: 409, detail: "a restore is under way", opts: keeping(&backup.BusyError{Filter: "uri", Doing: "restore"}), call: writeback},
		"archive has another map":        {code: "archive_mismatch", status: 409, opts: keeping(fmt.Errorf("x: %w", &archive.MismatchError{})), call: writeback},
		"no such version":                {code: "unknown_version", status: 404, detail: "no version v9", opts: keeping(&backup.UnknownVersionError{Filter: "uri", Version: "v9", Known: []string{"v2"}}), call: restore},
		"archive is gone":                {code: "archive_unavailable", status: 503, header: "Retry-After: 1", opts: keeping(fmt.Errorf("host: %w", archive.ErrUnreachable)), call: writeback},
		"daemon stops":                   {code: "not_ready", status: 503, detail: "stopping", opts: keeping(backup.ErrStopping), call: writeback},
		"version is damaged":             {code: "archive_failed", status: 500, detail: "stripe 3", opts: keeping(&backup.CopyError{Doing: "restore", Filter: "uri", Err: errors.New("stripe 3 is damaged")}), call: restore},
		"filter is being restored":       {code: "filter_restoring", status: 503, header: "Retry-After: 1", detail: "filter later", opts: waitingFor(false), call: apitest.Request("POST", "/api/v1/filter", `{"filter_typeid":9,"uri_list":["a"]}`)},
		"filter is being restored, GET":  {code: "filter_restoring", status: 503, opts: waitingFor(false), call: apitest.Request("GET", "/api/v1/filters/later", "")},
		"filter waits for the archive":   {code: "archive_unavailable", status: 503, header: "Retry-After: 1", detail: "filter later: waits for the archive", opts: waitingFor(true), call: apitest.Request("POST", "/api/v1/check", `{"filter_typeid":"later","uri_list":["a"]}`)},
		"filter waits, PUT":              {code: "archive_unavailable", status: 503, opts: waitingFor(true), call: apitest.Request("PUT", "/api/v1/filters/later", "")},
		"new filter waits, PUT":          {code: "archive_unavailable", status: 503, opts: waitingFor(true), call: apitest.Request("PUT", "/api/v1/filters/fresh", "")},
		"drop that cannot be told":       {code: "archive_unavailable", status: 503, opts: waitingFor(true), call: apitest.Request("DELETE", "/api/v1/filters/uri?confirm=uri", "")},
		"not ready, filters are waiting": {code: "not_ready", status: 503, detail: "later", opts: waitingFor(true), call: apitest.Request("GET", "/readyz", "")},
	}
}

func TestCopies(t *testing.T) {
	k := &apitest.Backup{}
	r := apitest.New(t, func(o *api.Options) { o.Backup = k })
	const rest = `,"items_estimate":2,"took_seconds":1.5}` + "\n"
	apitest.WantBody(t, r.Do("POST", "/api/v1/filters/1/writeback", ""), `{"filter":"uri","version":"v1","generation":3,"bytes":64,"uploaded":7`+rest)
	if got := *k.Asked.Load(); got != "writeback 1" {
		t.Errorf("asked %q", got)
	}
	// Clients such as curl send a body whether it is expected or not.
	apitest.WantBody(t, r.Post("/api/v1/filters/uri/restore?version=v1", "{}"), `{"filter":"uri","version":"v1","generation":3,"bytes":64,"uploaded":0`+rest)
	if got := *k.Asked.Load(); got != "restore uri v1" {
		t.Errorf("asked %q", got)
	}
	if a := r.Do("GET", "/api/v1/filters/uri/restore", ""); a.Status != 405 {
		t.Errorf("GET: %d", a.Status)
	}
}

// A copy goes on for longer than any of the daemon's timeouts, and ends when its client
// leaves.
func TestCopiesLastAsLongAsTheirClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 2 * time.Second
		k := &apitest.Backup{Hold: func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(timeout + timeout/4):
				return nil
			}
		}}
		r := apitest.Piped(t, func(o *api.Options) { o.Backup, o.Limits.BodyTimeout = k, timeout })
		for _, body := range []string{"", "{}"} {
			if a := r.Do("POST", "/api/v1/filters/uri/writeback", body); a.Status != 200 {
				t.Errorf("body %q: %d %s", body, a.Status, a.Body)
			}
		}
		left := make(chan error, 1)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		k.Hold = func(ctx context.Context) error {
			leave()
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
			left <- ctx.Err()
			return ctx.Err()
		}
		req, err := http.NewRequestWithContext(ctx, "POST", r.HTTP.URL+"/api/v1/filters/uri/writeback", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := r.HTTP.Client().Do(req); err == nil {
			resp.Body.Close()
			t.Error("answered")
		}
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the copy goes on without its client: %v", err)
		}
		r.Eventually("counted as gone", func() bool {
			return strings.Contains(r.Scrape(), `urifilter_requests_total{code="499",path="/api/v1/filters/{name}/writeback"} 1`)
		})
	})
}
