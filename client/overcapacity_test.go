package client_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
)

// A filter that is over its capacity is logged once, whichever call notices it.
func TestOverCapacityIsLoggedOnce(t *testing.T) {
	s := clienttest.NewServer(t)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		switch stream := r.URL.RawQuery != ""; {
		case stream:
			w.Header().Set("Trailer", "Urifilter-Total, Urifilter-Duplicates, Urifilter-Over-Capacity")
			io.WriteString(w, "a\n")
			w.(http.Flusher).Flush()
			w.Header().Set("Urifilter-Total", "1")
			w.Header().Set("Urifilter-Duplicates", "0")
			w.Header().Set("Urifilter-Over-Capacity", "0.29")
		case bytes.Contains(body, []byte(`"ip"`)):
			io.WriteString(w, `{"uri_list":["a"],"total":1,"duplicates":0}`)
		default:
			w.Header().Set("Urifilter-Over-Capacity", "0.29")
			io.WriteString(w, `{"uri_list":["a"],"total":1,"duplicates":0,"over_capacity":true,"fpr_estimate":0.29}`)
		}
		return true
	})
	var log bytes.Buffer
	c, err := client.New(s.URL, client.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, typ := range []string{"uri", "ip"} {
			if fresh, err := c.Filter(t.Context(), typ, []string{"a"}); err != nil || len(fresh) != 1 {
				t.Errorf("%s: %v, %v", typ, fresh, err)
			}
		}
		if _, fresh, err := c.FilterLines(t.Context(), "3", strings.NewReader("a\n"), io.Discard); err != nil || fresh != 1 {
			t.Errorf("stream: %v, %v", fresh, err)
		}
	}
	for typ, want := range map[string]int{"uri": 1, "ip": 0, "3": 1} {
		if got := strings.Count(log.String(), "filter="+typ+" fpr_estimate=0.29"); got != want {
			t.Errorf("filter %s: %d lines, want %d:\n%s", typ, got, want, log.String())
		}
	}
}
