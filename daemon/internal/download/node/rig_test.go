package node

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/chromium"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// A node runs its own program again, for job code and browsers: here that is the test binary.
func TestMain(m *testing.M) {
	switch {
	case child.Asked(os.Args[1:]):
		os.Exit(child.Main(os.Args[1:]))
	case chromium.Asked(os.Args[1:]):
		os.Exit(chromium.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// patient is a time limit that is reached only if something is broken.
const patient = 3 * time.Minute

// testSettings are for a node that listens on any free port, and may call this machine.
func testSettings(t *testing.T) settings.Config {
	cfg := settings.Default()
	cfg.DataDir = t.TempDir()
	cfg.AllowPrivate = true
	cfg.Listen, cfg.Worker.Listen, cfg.Dispatch.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	return cfg
}

// running is a node that serves.
type running struct {
	t    *testing.T
	node *Node
	log  *testserver.Log
	stop func() error // ends it, once, and returns the error of Run
}

// open opens a node and runs it until the test ends.
func open(t *testing.T, cfg settings.Config, roles Roles) *running {
	t.Helper()
	log := &testserver.Log{}
	n, err := Open(t.Context(), cfg, roles, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	n.stopping = lifecycle.NewStopGuard(patient, n.log) // not 28 s, which a machine with other work may take
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, make(chan os.Signal)) }()
	r := &running{t: t, node: n, log: log, stop: sync.OnceValue(func() error {
		cancel()
		return <-ended
	})}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// refused returns the error of a node that must not open.
func refused(t *testing.T, cfg settings.Config, roles Roles) string {
	t.Helper()
	n, err := Open(t.Context(), cfg, roles, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatalf("it opened; closed: %v", n.close())
	}
	return err.Error()
}

// call calls a node over HTTP.
func (r *running) call(method, path, body string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequest(method, "http://"+r.node.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// until waits until the answer to a call has a text.
func (r *running) until(path, text string) {
	r.t.Helper()
	var got string
	for began := time.Now(); time.Since(began) < patient; time.Sleep(10 * time.Millisecond) {
		if _, got = r.call("GET", path, ""); strings.Contains(got, text) {
			return
		}
	}
	r.t.Fatalf("%s: not %s within %v, but %s\n%s", path, text, patient, got, r.log)
}

// site is a web server that answers requests for /slow/ when answer is called.
func site(t *testing.T) (url string, asked <-chan string, answer func()) {
	t.Helper()
	paths, answering := make(chan string, 1000), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		paths <- r.URL.Path
		if strings.HasPrefix(r.URL.Path, "/slow/") {
			select {
			case <-answering:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "page "+r.URL.Path)
	}))
	answer = sync.OnceFunc(func() { close(answering) })
	t.Cleanup(server.Close)
	t.Cleanup(answer)
	return server.URL, paths, answer
}
