package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// When several runs begin at the same moment and name their hosts in different orders, one of
// them goes through.
func TestOneOfSeveralRunsGetsAllLocks(t *testing.T)       { oneGetsAllLocks(t, 3) }
func TestSystemOneOfSeveralRunsGetsAllLocks(t *testing.T) { oneGetsAllLocks(t, 20) }

func oneGetsAllLocks(t *testing.T, rounds int) {
	t.Parallel()
	for range rounds {
		a, b, c := newLocal(t, "a"), newLocal(t, "b"), newLocal(t, "c")
		var through atomic.Int32
		var running sync.WaitGroup
		begin := make(chan struct{})
		release := make(chan struct{})
		ended := make(chan error, 3)
		for i, hosts := range [][]*local{{a, b, c}, {c, a}, {b, c, a}} {
			s := &scene{}
			var jobs []Job
			for _, h := range hosts {
				jobs = append(jobs, on(h, s.change(h.name, "x", func(context.Context) error {
					through.Add(1)
					<-release
					return nil
				})))
			}
			running.Add(1)
			go func() {
				running.Done()
				<-begin
				_, err := Run(t.Context(), []Phase{{Name: "p", Jobs: jobs[:1]}, {Name: "q", Jobs: jobs}}, locking(s, fmt.Sprintf("run%d", i)))
				ended <- err
			}()
		}
		running.Wait()
		close(begin)
		// Two are refused while the third holds its locks, and works or is about to.
		refused := 0
		for range 2 {
			if err := <-ended; err != nil {
				refused++
			}
		}
		close(release)
		last := <-ended
		if refused != 2 || last != nil || through.Load() == 0 {
			t.Fatalf("%d refused before one works, the last: %v; %d jobs begun", refused, last, through.Load())
		}
	}
}
