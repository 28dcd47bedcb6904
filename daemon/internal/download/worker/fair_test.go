package worker

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// grouped is a list of n URIs of each of some hosts, host by host.
func grouped(kind string, hosts, n int) (uris []string) {
	for h := range hosts {
		for i := range n {
			uris = append(uris, fmt.Sprintf("http://%s%d.example/%s/%d", kind, h, kind, i))
		}
	}
	return uris
}

// A list that is grouped by host takes as long as a mixed one: the hosts are called at the same time.
func TestGroupedList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start(Options{Owner: "w1"})
		began := time.Now()
		j := w.job("grouped", download.Setting{Dispatch: 100, Delay: 200 * time.Millisecond, Concurrency: 2, MaxAttempts: 3})
		w.add(j, grouped("ok", 40, 40)...)
		w.ends(j, 1600)
		if took := time.Since(began); took > 2*8*time.Second {
			t.Errorf("it took %s, want 8 s, or twice that at most", took)
		}
		w.polite(200*time.Millisecond, 2)
	})
}

// Hosts that never answer hold up no other: neither their part of what is handed out, nor their tasks in the worker's
// window, nor the jobs that fill it.
func TestHostsThatNeverAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		dead, tasks, dispatch, window int
		delay                         time.Duration
	}{
		"one":                      {dead: 1, tasks: 150, dispatch: 100, delay: 200 * time.Millisecond},
		"one, without a delay":     {dead: 1, tasks: 150, dispatch: 100},
		"many, in a small window":  {dead: 8, tasks: 150, dispatch: 1000, window: 30, delay: 200 * time.Millisecond},
		"many, and much is handed": {dead: 8, tasks: 150, dispatch: 10_000, delay: 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start(Options{Owner: "w1", Window: test.window, Concurrency: min(100, max(test.window, 30))})
				j := w.job("mixed", download.Setting{Dispatch: test.dispatch, Delay: test.delay, Concurrency: 2, MaxAttempts: 1})
				began := time.Now()
				w.add(j, append(grouped("hang", test.dead, test.tasks), grouped("ok", 2, test.tasks)...)...)
				w.until("the hosts that answer are done", func() bool { return w.counts(j)[download.Done] == 2*test.tasks })
				if took, want := time.Since(began), time.Duration(test.tasks)*test.delay+20*time.Second; took > 2*want {
					t.Errorf("it took %s, want %s, or twice that at most", took, want)
				}
				for uri, task := range w.tasks(j) {
					if strings.Contains(uri, "/hang/") && task.State == download.Done {
						t.Errorf("%s is done", uri)
					}
				}
			})
		})
	}
}
