package http_test

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"testing"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// One token with many bodies that do not end keeps nobody else out, in any form of body: it has
// its share of the memory, and of the calls that run at once.
func TestOneTokenLeavesRoomForOthers(t *testing.T) {
	const streams, lists, calls = 40, 400, 60
	refused := regexp.MustCompile(`urifilter_errors_total{[^}]*"overloaded"[^}]*} ([0-9]+)`)
	for _, test := range []struct {
		name, query string
		text        string
		n           int
		connections int
		refused     int // at least
	}{
		{"streams", "?filter=1", "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n", streams, 0, 36},
		{"streams in gzip", "?filter=1", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", streams, 0, 36},
		{"lists", "", "Content-Length: 200000\r\n\r\n{", lists, 0, 300},
		{"more calls than half of the connections", "", "Content-Length: 100\r\n\r\n{", calls, 100, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := apitest.New(t, apitest.WithTokens, func(o *api.Options) {
				o.Limits.BodyBytes, o.Limits.HeldBytes, o.Connections = 1<<20, 17<<20, test.connections
				if test.n == lists {
					o.Limits.HeldBytes = 24 << 20
				}
			})
			for range test.n {
				conn := r.Dial()
				_, err := io.WriteString(conn, "POST /api/v1/check"+test.query+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-read\r\n"+test.text)
				if err != nil {
					t.Fatal(err)
				}
			}
			r.Eventually("as many as have no room are refused", func() bool {
				found := refused.FindStringSubmatch(r.Scrape())
				if found == nil {
					return false
				}
				n, err := strconv.Atoi(found[1])
				return err == nil && n >= test.refused
			})
			for i := range 20 {
				body := fmt.Sprintf(`{"filter_typeid":1,"uri_list":["%d"]}`, i)
				if a := r.Post("/api/v1/filter", body, "Content-Type", apitest.JSONType, "Authorization", "Bearer secret-filter"); a.Status != 200 {
					t.Fatalf("another token: %d %s", a.Status, a.Body)
				}
			}
			if a := r.Do("POST", "/api/v1/filter?filter_typeid=1", "a\nb\n", "Content-Type", apitest.TextType, "Authorization", "Bearer secret-admin"); a.Status != 200 {
				t.Fatalf("the stream of another token: %d %s", a.Status, a.Body)
			}
		})
	}
}
