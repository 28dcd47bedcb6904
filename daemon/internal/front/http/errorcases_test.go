package http_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// errorCase is a call that must be refused.
type errorCase struct {
	code   string
	status int
	detail string // a part of the problem's detail or, for 5xx, of the log
	header string // "Name: value" that must be in the answer
	opts   func(*api.Options)
	store  func(*apitest.MemStore) // makes the store fail, once the filters are there
	call   func(r *apitest.Rig) apitest.Answer
	waits  bool // for a time limit of the daemon
	large  bool // tens of MiB, against the default limits of a daemon
}

func failing(err error) func(*apitest.MemStore) {
	return func(st *apitest.MemStore) { st.Fail(err) }
}

// texts makes a filter of texts first.
func texts(call func(*apitest.Rig) apitest.Answer) func(*apitest.Rig) apitest.Answer {
	return func(r *apitest.Rig) apitest.Answer {
		r.Put("pages", `{"kind":"simhash"}`)
		return call(r)
	}
}

// near sends documents to a filter of texts.
func near(documents string, more ...string) func(*apitest.Rig) apitest.Answer {
	return texts(apitest.Request("POST", "/api/v1/near", `{"filter":"pages","documents":[`+documents+`]`+strings.Join(more, "")+`}`))
}

// bomb is a body that is small until it is unzipped.
func bomb(size int) func(*apitest.Rig) apitest.Answer {
	return func(r *apitest.Rig) apitest.Answer {
		return r.Post("/api/v1/filter", apitest.Zipped(r.T, strings.Repeat(" ", size)), "Content-Encoding", "gzip")
	}
}

// endlessLine is a zipped stream of one item.
func endlessLine(size int) func(*apitest.Rig) apitest.Answer {
	return func(r *apitest.Rig) apitest.Answer {
		return apitest.Lines("?filter_typeid=1", apitest.Zipped(r.T, strings.Repeat("x", size)), "Content-Encoding", "gzip")(r)
	}
}

func errorCases() map[string]errorCase {
	const ok = `{"filter_typeid":1,"uri_list":["a"]}`
	small := func(o *api.Options) { o.Limits.BodyBytes, o.Limits.Items, o.Limits.ItemBytes = 1000, 3, 10 }
	return map[string]errorCase{
		"broken JSON":             {code: "malformed_json", status: 400, call: apitest.List(`{"filter_typeid":1,"uri_list":["a",]}`)},
		"empty body":              {code: "malformed_json", status: 400, call: apitest.List(``)},
		"lines sent with curl -d": {code: "malformed_json", status: 400, detail: "text/plain", call: apitest.Request("POST", "/api/v1/filter", "a\nb", "Content-Type", "application/x-www-form-urlencoded")},
		"list is a string":        {code: "wrong_type", status: 400, call: apitest.List(`{"filter_typeid":1,"uri_list":"a"}`)},
		"no list":                 {code: "missing_field", status: 400, call: apitest.List(`{"filter_typeid":1}`)},
		"typing error":            {code: "unknown_field", status: 400, call: apitest.List(`{"filter_type":1,"uri_list":[]}`)},
		"list twice":              {code: "duplicate_field", status: 400, call: apitest.List(`{"filter_typeid":1,"uri_list":["b"],"uri_list":["a"]}`)},
		"list by both names":      {code: "duplicate_field", status: 400, detail: "uri_list and items are two names of one member", call: apitest.List(`{"filter":1,"uri_list":["a"],"items":["a"]}`)},
		"filter by both names":    {code: "duplicate_field", status: 400, detail: "two names of one member", call: apitest.List(`{"filter":1,"filter_typeid":1,"items":["a"]}`)},
		"both names in query":     {code: "invalid_parameter", status: 400, detail: "two names of one parameter", call: apitest.Lines("?filter=1&filter_typeid=1", "a\n")},
		"empty item":              {code: "empty_item", status: 400, call: apitest.List(`{"filter_typeid":1,"uri_list":["a",""]}`)},
		"null item":               {code: "null_item", status: 400, call: apitest.List(`{"filter_typeid":1,"uri_list":["a",null]}`)},
		"integer out of range":    {code: "invalid_item", status: 400, call: apitest.List(`{"filter_typeid":1,"uri_list":["a",9007199254740993]}`)},
		"half a surrogate pair":   {code: "invalid_utf8", status: 400, call: apitest.List(`{"filter_typeid":1,"uri_list":["a","\ud800"]}`)},
		"bad NDJSON":              {code: "malformed_json", status: 400, call: apitest.Request("POST", "/api/v1/filter?filter_typeid=1", "\"a\"\nb\n", "Content-Type", "application/x-ndjson")},
		"not gzip":                {code: "malformed_gzip", status: 400, call: apitest.Request("POST", "/api/v1/filter", ok, "Content-Encoding", "gzip")},
		"gzip cut short": {code: "malformed_gzip", status: 400, call: func(r *apitest.Rig) apitest.Answer {
			z := apitest.Zipped(r.T, ok)
			return r.Post("/api/v1/filter", z[:len(z)-5], "Content-Encoding", "gzip")
		}},
		"gzip with garbage": {code: "malformed_gzip", status: 400, call: func(r *apitest.Rig) apitest.Answer {
			return apitest.Lines("?filter_typeid=1", apitest.Zipped(r.T, "a\n")+"x", "Content-Encoding", "gzip")(r)
		}},
		"body breaks off":         {code: "incomplete_body", status: 400, call: apitest.CutOff("POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"filter_typeid\":1,")},
		"bad chunk":               {code: "incomplete_body", status: 400, call: apitest.Raw("POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")},
		"stream breaks off":       {code: "incomplete_body", status: 400, call: apitest.CutOff("POST /api/v1/filter?filter_typeid=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\na\nb\n")},
		"no filter in the query":  {code: "missing_parameter", status: 400, call: apitest.Lines("", "a\n")},
		"typing error in query":   {code: "unknown_parameter", status: 400, call: apitest.Lines("?filter_typeid=1&expires=5", "a\n")},
		"parameter beside JSON":   {code: "unknown_parameter", status: 400, detail: `"filter": such a call takes none: in JSON it is a member; for one item a line send Content-Type: text/plain`, call: apitest.Request("POST", "/api/v1/filter?filter=1", "a\nb", "Content-Type", "application/x-www-form-urlencoded")},
		"mistyped beside JSON":    {code: "unknown_parameter", status: 400, detail: `"filtr": such a call takes none: in JSON it is a member; for one item a line send Content-Type: text/plain`, call: apitest.Request("POST", "/api/v1/check?filtr=1", ok, "Content-Type", apitest.JSONType)},
		"mistyped parameter":      {code: "unknown_parameter", status: 400, detail: `"fro"; did you mean from?`, call: apitest.Request("POST", "/api/v1/filters/uri/merge?fro=ip", "")},
		"filter twice in query":   {code: "invalid_parameter", status: 400, call: apitest.Lines("?filter_typeid=1&filter_typeid=2", "a\n")},
		"bad query":               {code: "invalid_parameter", status: 400, call: apitest.Lines("?filter_typeid=%zz", "a\n")},
		"expire twice in query":   {code: "invalid_parameter", status: 400, call: apitest.Lines("?filter_typeid=1&expire=1&expire=1", "a\n")},
		"drop without confirm":    {code: "confirm_required", status: 400, detail: "all items of the filter will be forgotten, and the next start makes it again, empty, as the settings list it; if that is meant, add ?confirm=uri", call: apitest.Request("DELETE", "/api/v1/filters/uri", "")},
		"drop confirmed by id":    {code: "confirm_required", status: 400, call: apitest.Request("DELETE", "/api/v1/filters/1?confirm=1", "")},
		"no token":                {code: "unauthorized", status: 401, header: `Www-Authenticate: Bearer realm="urifilter"`, opts: apitest.WithTokens, call: apitest.List(ok)},
		"no token, stream":        {code: "unauthorized", status: 401, opts: apitest.WithTokens, call: apitest.Lines("?filter_typeid=1", "a\n")},
		"no token, GET":           {code: "unauthorized", status: 401, opts: apitest.WithTokens, call: apitest.Request("GET", "/api/v1/filters", "")},
		"wrong token":             {code: "unauthorized", status: 401, header: `Www-Authenticate: Bearer realm="urifilter", error="invalid_token"`, opts: apitest.WithTokens, call: apitest.Request("GET", "/api/v1/filters", "", "Authorization", "Bearer x")},
		"wrong token in the body": {code: "unauthorized", status: 401, opts: apitest.WithTokens, call: apitest.List(`{"filter_typeid":1,"uri_list":["a"],"access_token":"x"}`)},
		"header wins over body":   {code: "unauthorized", status: 401, opts: apitest.WithTokens, call: apitest.Request("POST", "/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"],"access_token":"secret-filter"}`, "Authorization", "Bearer x")},
		"password":                {code: "unauthorized", status: 401, opts: apitest.WithTokens, call: apitest.Request("GET", "/api/v1/filters", "", "Authorization", "Basic eDp5")},
		"wrong tokens in a row": {code: "too_many_refusals", status: 429, waits: true, header: "Retry-After: 10", opts: apitest.WithTokens, call: func(r *apitest.Rig) (last apitest.Answer) {
			for range access.RefusedBurst + 1 {
				last = r.Do("GET", "/api/v1/filters", "", "Authorization", "Bearer x")
			}
			return last
		}},
		"scope lacks":                  {code: "forbidden", status: 403, detail: "filter lacks the scope admin", header: `Www-Authenticate: Bearer realm="urifilter", error="insufficient_scope", scope="admin"`, opts: apitest.WithTokens, call: apitest.Request("PUT", "/api/v1/filters/new", "{}", "Authorization", "Bearer secret-filter")},
		"scope lacks in the body":      {code: "forbidden", status: 403, opts: apitest.WithTokens, call: apitest.List(`{"filter_typeid":1,"uri_list":["a"],"access_token":"secret-read"}`)},
		"another site's page":          {code: "cross_site", status: 403, call: apitest.Request("POST", "/api/v1/filter", ok, "Origin", "https://evil.example")},
		"unknown path":                 {code: "unknown_path", status: 404, detail: "/openapi.yaml describes the paths", call: apitest.Request("GET", "/api/v2/filter", "")},
		"unclean path":                 {code: "unknown_path", status: 404, call: apitest.Request("POST", "/api//v1/filter", ok)},
		"label is no path":             {code: "unknown_path", status: 404, call: apitest.Request("GET", "/api/v1/filters/uri/unknown", "")},
		"unknown filter":               {code: "unknown_filter", status: 404, call: apitest.List(`{"filter_typeid":"nope","uri_list":["a"]}`)},
		"unknown filter, stream":       {code: "unknown_filter", status: 404, call: apitest.Lines("?filter_typeid=77", "a\n")},
		"unknown filter, GET":          {code: "unknown_filter", status: 404, call: apitest.Request("GET", "/api/v1/filters/nope", "")},
		"unknown filter, DELETE":       {code: "unknown_filter", status: 404, call: apitest.Request("DELETE", "/api/v1/filters/nope?confirm=nope", "")},
		"unknown filter, restore":      {code: "unknown_filter", status: 404, call: apitest.Request("POST", "/api/v1/filters/nope/restore", "")},
		"GET of the filter call":       {code: "method_not_allowed", status: 405, header: "Allow: POST", call: apitest.Request("GET", "/api/v1/filter", "")},
		"PATCH of a filter":            {code: "method_not_allowed", status: 405, header: "Allow: DELETE, GET, HEAD, PUT", call: apitest.Request("PATCH", "/api/v1/filters/uri", "")},
		"slow client":                  {code: "request_timeout", status: 408, header: "Connection: close", waits: true, call: apitest.Raw("POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"filter")},
		"slow client, stream":          {code: "request_timeout", status: 408, waits: true, call: apitest.Raw("POST /api/v1/filter?filter_typeid=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\na\n")},
		"other parameters":             {code: "filter_conflict", status: 409, call: apitest.Request("PUT", "/api/v1/filters/uri", `{"capacity":7}`)},
		"id of another":                {code: "filter_conflict", status: 409, call: apitest.Request("PUT", "/api/v1/filters/uri2", `{"id":1}`)},
		"like one of another secret":   {code: "filters_differ", status: 409, detail: "another secret", call: apitest.Request("PUT", "/api/v1/filters/ip", `{"like":"uri"}`)},
		"digests of a bit-map":         {code: "digests_not_supported", status: 422, detail: "kinds exact and timing", call: apitest.Request("GET", "/api/v1/filters/uri/digests?part=0", "")},
		"part that is not":             {code: "invalid_parameter", status: 400, detail: "0 to 255", call: apitest.Request("GET", "/api/v1/filters/uri/digests?part=256", "")},
		"digests without a head":       {code: "malformed_json", status: 400, call: apitest.Request("POST", "/api/v1/filters/uri/digests", "00\n", "Content-Type", apitest.TextType)},
		"digests as JSON":              {code: "unsupported_media_type", status: 415, call: apitest.Request("POST", "/api/v1/filters/uri/digests", "{}", "Content-Type", apitest.JSONType)},
		"merge with nothing":           {code: "missing_parameter", status: 400, call: apitest.Request("POST", "/api/v1/filters/uri/merge", "")},
		"large body":                   {code: "body_too_large", status: 413, opts: small, call: apitest.List(ok + strings.Repeat(" ", 1000))},
		"large spec":                   {code: "body_too_large", status: 413, call: apitest.Request("PUT", "/api/v1/filters/x", strings.Repeat(" ", api.SpecBytes+1))},
		"large chunked body":           {code: "body_too_large", status: 413, opts: small, call: apitest.Raw("POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat(" ", 1001) + "\r\n0\r\n\r\n")},
		"gzip bomb":                    {code: "body_too_large", status: 413, opts: small, call: bomb(1001)},
		"gzip bomb, limits not set":    {code: "body_too_large", status: 413, large: true, call: bomb(65 << 20)},
		"large item":                   {code: "item_too_large", status: 413, opts: small, call: apitest.List(`{"filter_typeid":1,"uri_list":["a","01234567890"]}`)},
		"large line":                   {code: "item_too_large", status: 413, opts: small, call: apitest.Lines("?filter_typeid=1", "a\n01234567890\n")},
		"endless line in gzip":         {code: "item_too_large", status: 413, opts: small, call: endlessLine(1 << 20)},
		"endless line, limits not set": {code: "item_too_large", status: 413, large: true, call: endlessLine(64 << 20)},
		"many items":                   {code: "too_many_items", status: 413, opts: small, call: apitest.List(`{"filter_typeid":1,"uri_list":["a",2,3,4]}`)},
		"XML":                          {code: "unsupported_media_type", status: 415, header: "Accept-Post: application/json, application/x-ndjson, text/plain", call: apitest.Request("POST", "/api/v1/filter", ok, "Content-Type", "application/xml")},
		"bad type":                     {code: "unsupported_media_type", status: 415, call: apitest.Request("POST", "/api/v1/filter", ok, "Content-Type", "/;;")},
		"charset":                      {code: "unsupported_media_type", status: 415, call: apitest.Request("POST", "/api/v1/filter", ok, "Content-Type", "application/json; charset=gbk")},
		"spec as lines":                {code: "unsupported_media_type", status: 415, call: apitest.Request("PUT", "/api/v1/filters/x", "{}", "Content-Type", apitest.TextType)},
		"brotli":                       {code: "unsupported_encoding", status: 415, header: "Accept-Encoding: gzip", call: apitest.Request("POST", "/api/v1/filter", ok, "Content-Encoding", "br")},
		"brotli, stream":               {code: "unsupported_encoding", status: 415, call: apitest.Lines("?filter_typeid=1", "a\n", "Content-Encoding", "br")},
		"empty id":                     {code: "id_invalid", status: 400, call: near(`{"id":"","text":"abc"}`)},
		"one id twice":                 {code: "duplicate_id", status: 400, call: near(`{"id":"a","text":"abc"},{"id":"a","text":"abd"}`)},
		"two letters":                  {code: "text_too_short", status: 400, detail: "fewer than three letters", call: near(`{"id":"a","text":"a, b"}`)},
		"large text":                   {code: "text_too_large", status: 413, detail: "limits.text_bytes", opts: func(o *api.Options) { o.Limits.TextBytes = 3 }, call: near(`{"id":"a","text":"abcd"}`)},
		"large distance":               {code: "distance_invalid", status: 422, detail: "was made for 3", call: near(`{"id":"a","text":"abc"}`, `,"distance":4`)},
		"limit of none":                {code: "limit_invalid", status: 422, call: near(`{"id":"a","text":"abc"}`, `,"limit":0`)},
		"near on bloom":                {code: "near_not_supported", status: 422, detail: "simhash can", call: apitest.Request("POST", "/api/v1/near", `{"filter":1,"documents":[]}`)},
		"items of simhash":             {code: "items_not_supported", status: 422, detail: "/api/v1/near", call: texts(apitest.List(`{"filter":"pages","items":["a"]}`))},
		"kind that is not":             {code: "invalid_filter", status: 422, detail: "tree", call: apitest.Request("PUT", "/api/v1/filters/x", `{"kind":"tree"}`)},
		"name that cannot be":          {code: "invalid_filter", status: 422, call: apitest.Request("PUT", "/api/v1/filters/1x", "")},
		"store errs":                   {code: "internal", status: 500, detail: "disk on fire", store: failing(errors.New("disk on fire")), call: apitest.List(ok)},
		"store errs, stream":           {code: "internal", status: 500, detail: "disk on fire", store: failing(errors.New("disk on fire")), call: apitest.Lines("?filter_typeid=1", "a\n")},
		"store errs, check":            {code: "internal", status: 500, store: failing(errors.New("disk on fire")), call: apitest.Request("POST", "/api/v1/check", ok)},
		"store errs, DELETE":           {code: "internal", status: 500, store: failing(errors.New("disk on fire")), call: apitest.Request("DELETE", "/api/v1/filters/uri?confirm=uri", "")},
		"no memory for bodies":         {code: "overloaded", status: 503, header: "Retry-After: 1", opts: func(o *api.Options) { o.Limits.HeldBytes = 10 }, call: apitest.List(ok)},
		"no memory, stream":            {code: "overloaded", status: 503, opts: func(o *api.Options) { o.Limits.HeldBytes = 10 }, call: apitest.Lines("?filter_typeid=1", "a\n")},
		"no memory for more":           {code: "overloaded", status: 503, opts: func(o *api.Options) { o.Limits.HeldBytes = 2 << 20 }, call: func(r *apitest.Rig) apitest.Answer { return r.Post("/api/v1/filter", ok+strings.Repeat(" ", 4<<20)) }},
		"store is away":                {code: "store_unavailable", status: 503, header: "Retry-After: 1", store: failing(fmt.Errorf("redis: %w", engine.ErrUnavailable)), call: apitest.List(ok)},
		"store broke off":              {code: "outcome_unknown", status: 503, header: "Retry-After: 2", store: failing(fmt.Errorf("%w: %w", engine.ErrInDoubt, engine.ErrUnavailable)), call: apitest.List(ok)},
		"filter is damaged": {code: "filter_quarantined", status: 503, header: "Retry-After: 1", detail: "filter uri",
			store: failing(&engine.QuarantinedError{Quarantined: engine.Quarantined{ID: 1, Name: "uri", Cause: errors.New("bad sector")}}), call: apitest.List(ok)},
		"store has failed":      {code: "store_failed", status: 503, header: "Retry-After: 1", detail: "fsync", store: failing(fmt.Errorf("fsync x: %w", engine.ErrFailed)), call: apitest.List(ok)},
		"store has failed, PUT": {code: "store_failed", status: 503, store: failing(engine.ErrFailed), call: apitest.Request("PUT", "/api/v1/filters/x", "")},
		"store is not ready":    {code: "not_ready", status: 503, header: "Retry-After: 1", store: func(st *apitest.MemStore) { st.NotReady(errors.New("loading")) }, call: apitest.Request("GET", "/readyz", "")},
		"disk is full":          {code: "insufficient_storage", status: 507, detail: "/data", store: failing(fmt.Errorf("write /data: %w", engine.ErrNoSpace)), call: apitest.List(ok)},
		"disk is full, PUT":     {code: "insufficient_storage", status: 507, store: failing(engine.ErrNoSpace), call: apitest.Request("PUT", "/api/v1/filters/x", "")},
		"filter is full": {code: "filter_full", status: 507, detail: "filter tiny", call: func(r *apitest.Rig) apitest.Answer {
			r.Do("PUT", "/api/v1/filters/tiny", `{"capacity":1,"on_full":"reject"}`, "Content-Type", apitest.JSONType)
			apitest.WantBody(r.T.(*testing.T), r.Post("/api/v1/filter?filter_typeid=tiny", "x\n", "Content-Type", apitest.TextType), "x\n")
			return r.Post("/api/v1/filter", `{"filter_typeid":"tiny","uri_list":["a"]}`)
		}},
	}
}
