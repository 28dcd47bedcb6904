package worker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// wanting is an engine whose hosts want a delay.
type wanting struct {
	*world
	delay time.Duration
}

func (e *wanting) Download(ctx context.Context, work Work) (Page, error) {
	work.Wants(ctx, work.Task.URI, e.delay)
	return e.world.Download(ctx, work)
}

// The Crawl-delay of a host counts for jobs that obey robots.txt, if it is longer than their delay, up to two minutes.
func TestCrawlDelay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		delay, wants, want time.Duration
		robots             bool
	}{
		"longer":     {delay: time.Second, wants: 30 * time.Second, want: 30 * time.Second, robots: true},
		"shorter":    {delay: 40 * time.Second, wants: 30 * time.Second, want: 40 * time.Second, robots: true},
		"endless":    {delay: time.Second, wants: time.Hour, want: 2 * time.Minute, robots: true},
		"not obeyed": {delay: time.Second, wants: 30 * time.Second, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.start(Options{Owner: "w", Engines: map[string]Engine{"test": &wanting{w, test.wants}}})
				j := w.job("a", download.Setting{Dispatch: 10, MaxAttempts: 1, Concurrency: 2, Delay: test.delay, Robots: test.robots})
				w.add(j, "http://h.example/ok/first")
				w.ends(j, 1)
				var uris []string
				for i := range 5 {
					uris = append(uris, fmt.Sprintf("http://h.example/ok/%d", i))
				}
				w.add(j, uris...)
				w.ends(j, 6)
				w.mu.Lock()
				defer w.mu.Unlock()
				if got := w.hosts["h.example"].least; got != test.want {
					t.Errorf("a gap of %s, want %s", got, test.want)
				}
			})
		})
	}
}
