package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// working is a set of which a batch takes a byte for each item.
type working struct{ Set }

func (working) WorkFor(items int) int64 { return int64(items) }

// Batches that together need more than there is are carried out one after another, those that
// need less at once, and one that needs more than all by itself. One whose caller leaves takes nothing.
func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		limit  int64
		items  []int
		atOnce int
	}{
		"room for all":      {30, []int{10, 10, 10}, 3},
		"room for two":      {20, []int{10, 10, 10}, 2},
		"larger than all":   {20, []int{50, 1, 50}, 1},
		"nothing to change": {20, []int{20, 0, 0}, 3},
		"no limit":          {0, []int{1000, 1000, 1000}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &Filter{Set: working{}, turns: newTurns(c.limit)}
				running, done := 0, 0
				next := make(chan struct{})
				for _, n := range c.items {
					go func() {
						work, err := f.Begin(t.Context(), n)
						if err != nil {
							t.Error(err)
						}
						running++
						<-next
						running--
						done++
						f.End(work)
					}()
					synctest.Wait()
				}
				if running != c.atOnce {
					t.Errorf("%d are carried out at once, want %d", running, c.atOnce)
				}
				gone, leave := context.WithCancel(t.Context())
				leave()
				if _, err := f.Begin(gone, 1); running < len(c.items) && !errors.Is(err, context.Canceled) {
					t.Errorf("a caller that has left: %v", err)
				}
				for range c.items {
					next <- struct{}{}
					synctest.Wait()
				}
				if done != len(c.items) {
					t.Errorf("%d of %d have ended", done, len(c.items))
				}
			})
		})
	}
}
