package http

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/page"
)

// readyTimeout is how long the store's readiness check may take.
const readyTimeout = 2 * time.Second

// headerVersion shows the daemon's version at /livez.
const headerVersion = "Urifilter-Version"

func (c *call) live() error {
	c.w.Header().Set(headerVersion, c.s.version)
	return c.sendText(http.StatusOK, "ok\n")
}

// readiness answers /readyz: a line, a problem, or with ?verbose one line per check.
func (c *call) readiness() error {
	verbose := c.r.URL.Query().Has("verbose")
	if verbose && c.s.statusScope != "" {
		if err := c.require(c.s.statusScope); err != nil {
			return err
		}
	}
	err := c.s.ready(c.r.Context())
	if verbose {
		return c.readyVerbose(err)
	}
	if err != nil {
		return err
	}
	text := "ready\n"
	if bad := c.s.engine.Quarantined(); len(bad) > 0 { // the other filters are served
		names := make([]string, len(bad))
		for i, q := range bad {
			names[i] = q.Name
		}
		text = "ready, but for filters in quarantine: " + strings.Join(names, ", ") + "\n"
	}
	return c.sendText(http.StatusOK, text)
}

// require admits a call by the token in its header, or as that of a caller without one.
func (c *call) require(scope string) error {
	if !c.s.access.AsksTokens() {
		return nil
	}
	if present, err := c.authenticateHeader(scope); present || err != nil {
		return err
	}
	return c.admit("", scope)
}

func (c *call) readyVerbose(err error) error {
	status, store := http.StatusOK, "ok"
	if err != nil {
		f := problem.Of(err)
		status, store = http.StatusServiceUnavailable, f.Detail
		c.w.Header().Set("Retry-After", "1")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "daemon: %s\n", store)
	for _, f := range c.s.engine.Filters() {
		st := f.Stats()
		capacity := f.Capacity()
		if capacity == 0 {
			fmt.Fprintf(&b, "filter %s: %d items\n", f.Name, st.Items)
			continue
		}
		fmt.Fprintf(&b, "filter %s: about %d of %d items\n", f.Name, st.Items, capacity)
	}
	for _, q := range c.s.engine.Quarantined() {
		fmt.Fprintf(&b, "filter %s: in quarantine, its data are damaged; the log says more\n", q.Name)
	}
	return c.sendText(status, b.String())
}

// page is one of the pages for people. Each checks the token itself, which may be that of a session.
func (c *call) page() error { return c.handOver(c.s.status) }

// root is the status page for people who open the address in a browser, and a text for others.
func (c *call) root() error {
	c.w.Header().Set("Vary", "Accept")
	if page.WantsHTML(c.r) {
		return c.page()
	}
	return c.sendText(http.StatusOK, "urifilter "+c.s.version+`: remembers which items have been seen

POST /api/v1/filter      which items of a list are new; they are remembered
POST /api/v1/check       the same without remembering
GET  /api/v1/filters     the filters; GET, PUT, DELETE /api/v1/filters/{name}
GET  /openapi.yaml       all of it, with examples
GET  /livez /readyz /metrics

curl -d '{"filter_typeid":"uri","uri_list":["https://example.com/"]}' http://`+hostOf(c.r)+pathFilter+"\n")
}

// hostOf returns the address by which the client knows the daemon.
func hostOf(r *http.Request) string {
	if r.Host == "" { // HTTP/1.0
		return "127.0.0.1:8000"
	}
	return r.Host
}

func (c *call) sendText(status int, text string) error {
	return c.send(status, c.s.header.text, []byte(text))
}

// handOver lets h answer the call.
func (c *call) handOver(h http.Handler) error {
	w := &statusWriter{ResponseWriter: c.w, status: http.StatusOK, c: c}
	w.arm()
	h.ServeHTTP(w, c.r)
	c.status, c.sent = w.status, w.sent
	return nil
}

// statusWriter records the status and size of an answer.
type statusWriter struct {
	http.ResponseWriter
	c      *call
	status int
	sent   int64
}

func (w *statusWriter) arm() { w.c.writeBy(time.Now().Add(w.c.s.limits.BodyTimeout)) }

func (w *statusWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, err
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.arm() // it may have taken long until now
	w.ResponseWriter.WriteHeader(status)
}
