package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/intake"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// downloads is an engine that always has a page.
type downloads struct{}

func (downloads) Download(context.Context, worker.Work) (worker.Page, error) {
	return worker.Page{}, nil
}

// answers is a filter with the same answer to each question, and a store that adds all tasks.
type answers struct{ err error }

func (a answers) Check(_ context.Context, _ string, uris []string) ([]bool, error) {
	return make([]bool, len(uris)), a.err
}
func (a answers) Remember(context.Context, string, []string) error { return a.err }
func (a answers) Close() error                                     { return nil }
func (a answers) AddTasks(_ context.Context, _ int64, tasks []download.NewTask) (int, error) {
	return len(tasks), nil
}
func (a answers) Hold(_ context.Context, _ string, names []string, _ time.Duration) ([]string, error) {
	return names, nil
}
func (a answers) LetGo(context.Context, string, []string) error { return nil }

// A filter that cannot be had at present costs a page that is to be parsed no attempt; one that refuses does.
func TestFilterIsAway(t *testing.T) {
	t.Parallel()
	refusal := &client.Error{}
	refusal.Status = 403
	full := &client.Error{}
	full.Status = 507
	busy := &client.Error{}
	busy.Status = 503
	for _, c := range []struct {
		err   error
		early bool
	}{{errors.New("connection refused"), true}, {busy, true}, {refusal, false}, {full, false}, {&seen.UnknownError{Filter: "x"}, false}} {
		of := answers{c.err}
		engine := parsing{downloads{}, intake.New(of, of, ""), func() {}}
		job := download.Job{Setting: download.Setting{Parse: download.Parse{Code: download.Code{Text: "x"}, Filter: "x"}}}
		_, err := engine.Download(t.Context(), worker.Work{Task: download.Task{URI: "http://a.example/"}, Job: job})
		f := worker.FailureOf(err)
		if f == nil || f.Early != c.early || f.Early != (f.After > 0) || f.Permanent {
			t.Errorf("%v: %+v, want early %t", c.err, f, c.early)
		}
	}
}
