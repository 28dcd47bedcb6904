package embedded

import (
	"testing"
	"testing/synctest"
)

// Batches that together need more than there is are carried out one after another, those that
// need less at once, and one that needs more than all by itself.
func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		limit  int64
		items  []int
		atOnce int
	}{
		"room for all":      {30 * itemWork, []int{10, 10, 10}, 3},
		"room for two":      {20 * itemWork, []int{10, 10, 10}, 2},
		"larger than all":   {20 * itemWork, []int{50, 1, 50}, 1},
		"nothing to change": {20 * itemWork, []int{20, 0, 0}, 3},
		"no limit":          {0, []int{1000, 1000, 1000}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := newTurns(c.limit)
				running, done := 0, 0
				next := make(chan struct{})
				for _, n := range c.items {
					go func() {
						bytes := turns.begin(n)
						running++
						<-next
						running--
						done++
						turns.end(bytes)
					}()
					synctest.Wait()
				}
				if running != c.atOnce {
					t.Errorf("%d are carried out at once, want %d", running, c.atOnce)
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
