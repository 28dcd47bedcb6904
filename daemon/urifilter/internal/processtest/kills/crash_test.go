package kills_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// The real binary under load from several clients is killed at random moments, some
// of them while it starts: no acknowledged item is ever new again.
func TestKill9(t *testing.T)       { kill9(t, 7, fixed) }
func TestSystemKill9(t *testing.T) { kill9(t, 15, fixed) }

// The same with a bit-map that at first adds a layer every few batches.
func TestKill9Growing(t *testing.T)       { kill9(t, 7, growing) }
func TestSystemKill9Growing(t *testing.T) { kill9(t, 15, growing) }

// A filter of 37 MB, of which a quarter is in the journal, so that there are many checkpoints,
// and some of the kills fall into one.
const (
	fixed   = "{id: 1, name: uri, capacity: 12000000, on_full: warn}"
	growing = "{id: 1, name: uri, capacity: 20000, on_full: grow}"
)

func kill9(t *testing.T, rounds int, filter string) {
	t.Parallel()
	checked := map[*processtest.Crasher]*int{} // acked ranges that were verified once after a crash
	k := campaign[*processtest.Crasher]{
		filters: filter, checkpoint: "1MiB", load: (*processtest.Crasher).Load,
		answered: func(c *processtest.Crasher) bool { return len(c.Acked) > 0 },
		check: func(c *processtest.Crasher, p *processtest.Process, last bool) error {
			return c.MustRemember(p, sample(c.Acked, checked[c], last))
		},
	}
	for i := range 4 {
		c := &processtest.Crasher{ID: i}
		k.clients, checked[c] = append(k.clients, c), new(int)
	}
	p := k.run(t, rounds)
	items := 0
	for _, c := range k.clients {
		for _, r := range c.Acked {
			items += r[1] - r[0]
		}
		// A batch without an answer may be remembered; sent again, it is.
		for _, r := range c.Lost {
			if status, answer, err := p.Post(context.Background(), "/api/v1/filter", c.Body(r)); err != nil || status != http.StatusOK {
				t.Errorf("status %d, %v: %s", status, err, answer)
			}
		}
		if err := c.MustRemember(p, c.Lost); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d kills, %d acknowledged items, all remembered", rounds+rounds/7, items)
	end(t, p)
}

// When its files fail, the daemon says so and ends with an error; acknowledged items are there
// at the next start.
func TestStoreFailureEndsTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := processtest.Start(t, dir, nil)
	p.MustPost("/api/v1/filter", processtest.List(t, "a", "b"), 200)
	folder := filepath.Join(dir, "filters", "1-uri")
	moved := folder + ".moved"
	if err := os.Rename(folder, moved); err != nil { // the next segment cannot be made
		t.Fatal(err)
	}
	var once sync.Once
	var failed atomic.Int64
	c := &processtest.Crasher{}
	for i := 0; i < 200; i++ {
		r := [2]int{c.Next, c.Next + 5000}
		c.Next = r[1]
		status, answer, err := p.Post(context.Background(), "/api/v1/filter", c.Body(r))
		if err != nil {
			break
		}
		if status == http.StatusServiceUnavailable {
			once.Do(func() { processtest.MustContain(t, answer, "store_failed") })
			failed.Add(1)
			if status, _, err := p.Get("/readyz"); err == nil && status != http.StatusServiceUnavailable {
				t.Errorf("readyz: %d, want 503", status)
			}
			break
		}
		c.Acked = append(c.Acked, r)
	}
	select {
	case <-p.Done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("the process does not end\n%s", p.Log)
	}
	if p.Err == nil || failed.Load() == 0 {
		t.Errorf("exit %v, %d answers of 503\n%s", p.Err, failed.Load(), p.Log)
	}
	if err := os.Rename(moved, folder); err != nil {
		t.Fatal(err)
	}
	p = processtest.Start(t, dir, nil)
	if err := c.MustRemember(p, c.Acked); err != nil {
		t.Error(err)
	}
}
