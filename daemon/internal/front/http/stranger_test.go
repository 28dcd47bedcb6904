package http_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

const strangersBody = 1 << 20 // Limits.BodyBytes of the test

// strangers are callers without a token, with the data that each sends before it falls silent
// with its connection open.
func strangers(t *testing.T) map[string]string {
	t.Helper()
	const head = "POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\n"
	spaces := strings.Repeat(" ", strangersBody-1)
	length := fmt.Sprintf("Content-Length: %d\r\n", strangersBody)
	all := map[string]string{
		"body without its last byte":     head + length + "\r\n" + spaces,
		"promise of a body":              head + length + "\r\n",
		"promise of a small body":        head + "Content-Length: 65536\r\n\r\n",
		"small body without its end":     head + "Content-Length: 65536\r\n\r\n" + spaces[:65535],
		"chunks without end":             head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(spaces), spaces),
		"gzip bomb without its end":      head + "Content-Encoding: gzip\r\n" + length + "\r\n" + unfinished(t, spaces),
		"gzip of nothing, many times":    head + "Content-Encoding: gzip\r\n" + length + "\r\n" + strings.Repeat(apitest.Zipped(t, ""), 2000),
		"stream without its end":         head + "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
		"header without its end":         head + "X: " + spaces[:4000],
		"answers that nobody reads":      strings.Repeat("GET /openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
		"body of a call that reads none": "PUT /api/v1/filters/x HTTP/1.1\r\nHost: localhost\r\n" + length + "\r\n" + spaces,
	}
	for what, lines := range map[string]string{"empty": "Authorization:\r\n", "blank": "Authorization: \t \r\n", "twice empty": "Authorization:\r\nAuthorization: \r\n"} {
		all["gzip under a header that is "+what] = head + lines + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n" + unfinished(t, spaces[:1000])
	}
	return all
}

// unfinished is gzip of text without its end.
func unfinished(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Callers without a token cost those with one nothing, however slow they are: as many as fill
// the budget for bodies, and many more.
func TestStrangersDoNotStopTheDaemon(t *testing.T)       { strangersCome(t, 4, 10) }
func TestNoRaceStrangersDoNotStopTheDaemon(t *testing.T) { strangersCome(t, 400) }

func strangersCome(t *testing.T, numbers ...int) {
	for name, text := range strangers(t) {
		for _, n := range numbers {
			t.Run(fmt.Sprintf("%d times %s", n, name), func(t *testing.T) {
				r := apitest.New(t, apitest.WithTokens, func(o *api.Options) {
					o.Limits.BodyBytes, o.Limits.HeldBytes = strangersBody, 4*strangersBody
				})
				for range n {
					conn := r.Dial()
					go func() { _, _ = io.WriteString(conn, text) }() // it cannot send everything if it is answered and closed
				}
				// The gate has seen them all, or their header is incomplete.
				if !strings.HasPrefix(name, "header") {
					r.Eventually("all have come", func() bool { return r.Arrived.Load() >= int64(n) })
				}
				large := strings.Repeat(" ", strangersBody/4)
				for i := range 4 {
					body := fmt.Sprintf(`{"filter_typeid":1,"uri_list":["%s-%d"]%s}`, name, i, large)
					a := r.Post("/api/v1/filter", body, "Content-Type", apitest.JSONType, "Authorization", "Bearer secret-filter")
					if want := fmt.Sprintf(`{"uri_list":["%s-%d"],"total":1,"duplicates":0}`+"\n", name, i); a.Status != 200 || a.Body != want {
						t.Fatalf("a caller with a token: %d %s", a.Status, a.Body)
					}
				}
			})
		}
	}
}

// A token in the body is for small bodies; a large one needs the header.
func TestBodyWithoutAHeader(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	body := func(size int) string {
		const start, end = `{"filter_typeid":1,"uri_list":["a"],"access_token":"secret-filter"`, `}`
		return start + strings.Repeat(" ", size-len(start)-len(end)) + end
	}
	if a := r.Post("/api/v1/filter", body(api.AnonymousBody)); a.Status != 200 {
		t.Errorf("64 KiB: %d %s", a.Status, a.Body)
	}
	for name, send := range map[string]func() apitest.Answer{
		"with its length": func() apitest.Answer { return r.Post("/api/v1/filter", body(api.AnonymousBody+1)) },
		"in chunks": func() apitest.Answer {
			return apitest.Raw(fmt.Sprintf("POST /api/v1/filter HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", api.AnonymousBody+1, body(api.AnonymousBody+1)))(r)
		},
		"in gzip": func() apitest.Answer {
			return r.Post("/api/v1/filter", apitest.Zipped(t, body(api.AnonymousBody+1)), "Content-Encoding", "gzip")
		},
	} {
		a := send()
		if p := a.Problem(t); a.Status != 401 || p.ErrorCode != problem.Unauthorized || !strings.Contains(p.Detail, "Authorization header; without it a body may have 64 KiB") {
			t.Errorf("a byte more, %s: %d %s", name, a.Status, a.Body)
		}
	}
	if a := r.Post("/api/v1/filter", body(api.AnonymousBody+1), "Authorization", "Bearer secret-filter"); a.Status != 200 {
		t.Errorf("a byte more, with the header: %d %s", a.Status, a.Body)
	}
}

// Bodies without a header have a separate budget; when it is used up, callers that send the
// header are still served.
func TestStrangersShareABudget(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	give, ok := r.API.TakeAnonymous(api.AnonymousHeld - api.AnonymousRead)
	if !ok {
		t.Fatal("the budget is smaller than it says")
	}
	defer give()
	const body = `{"filter_typeid":1,"uri_list":["a"],"access_token":"secret-filter"}`
	if a := r.Post("/api/v1/filter", body); a.Status != 200 {
		t.Errorf("a small body: %d %s", a.Status, a.Body)
	}
	a := r.Post("/api/v1/filter", body+strings.Repeat(" ", api.AnonymousRead))
	if p := a.Problem(t); p.ErrorCode != problem.Overloaded || !strings.Contains(p.Detail, "Authorization header") {
		t.Errorf("a larger one: %d %s", a.Status, a.Body)
	}
	if a := r.Post("/api/v1/filter", body+strings.Repeat(" ", api.AnonymousRead), "Authorization", "Bearer secret-filter"); a.Status != 200 {
		t.Errorf("the same with the header: %d %s", a.Status, a.Body)
	}
}

// A growing body is briefly in memory twice, and is counted twice.
func TestABodyThatGrowsIsHeldTwice(t *testing.T) {
	const body = `{"filter_typeid":1,"uri_list":["a"]}`
	chunked := func(size int) func(*apitest.Rig) apitest.Answer {
		return apitest.Raw(fmt.Sprintf("POST /api/v1/filter HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
			size, body+strings.Repeat(" ", size-len(body))))
	}
	r := apitest.New(t, func(o *api.Options) { o.Limits.HeldBytes = 3 * api.FirstRead })
	if a := chunked(2*api.FirstRead - 1)(r); a.Status != 200 {
		t.Errorf("grown once: %d %s", a.Status, a.Body)
	}
	r.AwaitNothingHeld()
	if a := chunked(2*api.FirstRead + 1)(r); a.Problem(t).ErrorCode != problem.Overloaded {
		t.Errorf("grown twice, to more than there may be: %d %s", a.Status, a.Body)
	}
}

// Gzip that unpacks to nothing is bounded, too.
func TestGzipOfNothingEnds(t *testing.T) {
	r := apitest.New(t, func(o *api.Options) { o.Limits.BodyBytes, o.Limits.ItemBytes = 1000, 1000 })
	a := r.Post("/api/v1/filter", strings.Repeat(apitest.Zipped(t, ""), 10_000), "Content-Encoding", "gzip")
	if p := a.Problem(t); p.ErrorCode != problem.BodyTooLarge {
		t.Errorf("got %d %s", a.Status, a.Body)
	}
}
