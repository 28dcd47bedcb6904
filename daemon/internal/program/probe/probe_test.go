package probe

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestAnswers(t *testing.T) {
	registry := prometheus.NewRegistry()
	count := prometheus.NewCounter(prometheus.CounterOpts{Name: "program_things_total"})
	registry.MustRegister(count)
	count.Add(3)
	var ready error
	h := New(Options{Program: "program worker", Ready: func(context.Context) error { return ready }, Metrics: registry})
	for _, test := range []struct {
		method, path string
		ready        error
		status       int
		want         string
	}{
		{"GET", "/", nil, 200, "program worker\n"},
		{"GET", "/livez", errors.New("no store"), 200, "alive\n"},
		{"GET", "/readyz", nil, 200, "ready\n"},
		{"GET", "/readyz", errors.New("no store"), 503, "not ready: no store\n"},
		{"GET", "/metrics", nil, 200, "program_things_total 3"},
		{"POST", "/readyz", nil, 405, ""},
		{"GET", "/api/v1/jobs", nil, 404, ""},
	} {
		ready = test.ready
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(test.method, test.path, http.NoBody))
		if rec.Code != test.status || !strings.Contains(rec.Body.String(), test.want) {
			t.Errorf("%s %s: %d %q, want %d %q", test.method, test.path, rec.Code, rec.Body, test.status, test.want)
		}
	}
}
