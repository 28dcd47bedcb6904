// Package probe answers /livez, /readyz and /metrics for a process that serves nothing else. Callers
// need no token: no answer is secret.
package probe

import (
	"context"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options determine the answers. All are required.
type Options struct {
	Program string // with its role, for people
	// Ready returns nil if the process can do its work. It must bound its own time.
	Ready   func(context.Context) error
	Metrics prometheus.Gatherer
}

// New makes the handler, which is safe for concurrent use. /readyz is 503 with the reason when the
// process is not ready.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, status int, text string) {
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text+"\n")
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, o.Program+"\n\nGET /livez /readyz /metrics")
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := o.Ready(r.Context()); err != nil {
			w.Header().Set("Retry-After", "1")
			say(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		say(w, http.StatusOK, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	return mux
}
