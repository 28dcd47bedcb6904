package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However many callers ask for filters that do not exist, the store is asked every 20 ms at most,
// and each of them by a question that began after it came.
func TestCallersShareQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, broken := newCatching(), errors.New("broken")
		var asked atomic.Int64 // callers look at it
		start := time.Now()
		ask := func(context.Context) error {
			asked.Add(1)
			time.Sleep(time.Millisecond)
			return broken
		}
		for i := range 100 {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				came := asked.Load()
				if err := c.up(context.Background(), ask); err != broken {
					t.Error(err)
				}
				if asked.Load() == came {
					t.Error("it was answered by an earlier question")
				}
			}()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := asked.Load(); n < 4 || n > 7 || time.Since(start) > 2*time.Second {
			t.Errorf("%d questions", n)
		}
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.up(gone, ask); !errors.Is(err, context.Canceled) && err != broken {
			t.Error(err)
		}
		if err := c.up(context.Background(), ask); err != broken {
			t.Errorf("after a caller that left: %v", err)
		}
	})
}
