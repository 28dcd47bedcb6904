//go:build linux

package scriptengine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

// programs are testdata/child and testdata/liar. They are built without cgo, like releases, even
// if these tests are not.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "scriptengine-test-")
	if err != nil {
		return "", err
	}
	built = filepath.Join(dir, "child")
	cmd := exec.Command("go", "build", "-o", dir, "./testdata/child", "./testdata/liar")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return dir, nil
})

// rig is an engine, and a server that records its requests.
type rig struct {
	*httptest.Server
	t      *testing.T
	engine *Engine
	log    testserver.Log

	mu       sync.Mutex
	asked    []string
	turns    []string
	firsts   int
	followed []string
	filters  []string // that they passed
	foreign  bool     // other hosts belong to another worker
}

func newRig(t *testing.T, serve func(w http.ResponseWriter, r *http.Request), change ...func(*Options)) *rig {
	t.Helper()
	t.Parallel()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.asked = append(r.asked, q.Method+" "+q.URL.RequestURI())
		r.mu.Unlock()
		if serve != nil {
			serve(w, q)
		}
	}))
	t.Cleanup(r.Close)
	fetcher := fetch.New(fetch.Options{Guard: guard.New(guard.Options{AllowPrivate: true}), SpillDir: t.TempDir()})
	t.Cleanup(fetcher.Close)
	o := Options{
		HTTP: httpengine.New(fetcher, "tester"), Program: filepath.Join(dir, "child"), Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		Follow: func(_ context.Context, _ download.Job, filters []string, tasks []download.NewTask) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.filters = filters
			for _, task := range tasks {
				r.followed = append(r.followed, strings.TrimPrefix(task.URI, r.URL))
			}
			return nil
		},
	}
	for _, f := range change {
		f(&o)
	}
	r.engine = New(o)
	return r
}

// run runs the body of download, with its lines indented, on the page /start.
func (r *rig) run(body string, change ...func(*download.Setting)) (worker.Page, *worker.Failure) {
	r.t.Helper()
	return r.runAll("def download(task):\n    "+strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n    ")+"\n", change...)
}

func (r *rig) runAll(text string, change ...func(*download.Setting)) (worker.Page, *worker.Failure) {
	r.t.Helper()
	page, err := r.engine.Download(r.t.Context(), r.work(text, change...))
	return page, worker.FailureOf(err)
}

// work makes an attempt at the page /start.
func (r *rig) work(text string, change ...func(*download.Setting)) worker.Work {
	s := download.Setting{Timeout: 5 * time.Minute, MaxBytes: 1 << 20, Engine: download.EngineScript}
	for _, f := range change {
		f(&s)
	}
	return worker.Work{
		Task: download.Task{ID: "0123", URI: r.URL + "/start", Attempts: 2},
		Job:  download.Job{Name: "test", Setting: s, Code: download.Code{Language: script.Language, File: "job.star", Text: text}},
		Met:  func(string, string) {},
		Turn: func(_ context.Context, uri string) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.turns = append(r.turns, strings.TrimPrefix(uri, r.URL))
			return nil
		},
		First: func(context.Context) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.firsts++
			return nil
		},
		Holds: func(context.Context, string) (bool, error) { return !r.foreign, nil },
	}
}

// good runs a body that must succeed.
func (r *rig) good(body string, change ...func(*download.Setting)) worker.Page {
	r.t.Helper()
	page, failure := r.run(body, change...)
	if failure != nil {
		r.t.Fatalf("failed: %s", failure.Reason)
	}
	if page.Body != nil {
		r.t.Cleanup(func() { _ = page.Body.Close() })
	}
	return page
}

func textOf(t *testing.T, page worker.Page) string {
	t.Helper()
	text, err := io.ReadAll(page.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
