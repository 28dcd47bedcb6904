package crawl

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// TestNoPage: only a page counts as one. Every status that a server can answer a GET with leads either to a
// page or to a reason.
func TestNoPage(t *testing.T) {
	t.Parallel()
	noPage := map[int]bool{204: true, 205: true, 206: true}
	var statuses []int
	for status := 200; status < 600; status++ {
		if http.StatusText(status) != "" || status%100 == 99 {
			statuses = append(statuses, status)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		switch {
		case err == nil:
			w.WriteHeader(status)
			_, _ = w.Write([]byte("status " + strconv.Itoa(status)))
		case r.URL.Path == "/":
			for _, status := range statuses {
				_, _ = w.Write([]byte("<a href=/" + strconv.Itoa(status) + ">x</a>\n"))
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	s := setting(server.URL+"/", 1000, 4)
	s.PerHost = 4
	p := run(t, t.TempDir(), s)
	pages := int64(1)
	for _, status := range statuses {
		is := status < 300 && !noPage[status]
		if is {
			pages++
		}
		if n := p.Reasons["http_"+strconv.Itoa(status)]; n > 0 == is {
			t.Errorf("status %d: %d failures", status, n)
		}
	}
	if p.Stored != pages {
		t.Errorf("%d pages, want %d", p.Stored, pages)
	}
}
