package budget

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestBudget(t *testing.T) {
	b := New(10)
	for i, step := range []struct {
		take int64
		ok   bool
		used int64
	}{{10, true, 10}, {1, false, 10}, {-4, true, 6}, {5, false, 6}, {4, true, 10}, {0, true, 10}} {
		ok := true
		if step.take < 0 {
			b.Give(-step.take)
		} else {
			ok = b.Take(step.take)
		}
		if ok != step.ok || b.Used() != step.used {
			t.Errorf("step %d: %v, %d used; want %v, %d", i, ok, b.Used(), step.ok, step.used)
		}
	}
}

// The takers never hold more than the limit in total.
func TestBudgetUnderContention(t *testing.T) {
	const limit = 3
	b := New(limit)
	var held atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if !b.Take(2) {
					continue
				}
				if n := held.Add(2); n > limit {
					t.Errorf("%d held of %d", n, limit)
				}
				held.Add(-2)
				b.Give(2)
			}
		})
	}
	all.Wait()
	if b.Used() != 0 {
		t.Errorf("%d used when all is returned", b.Used())
	}
}
