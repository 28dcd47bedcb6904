package intake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
)

// memory is a slow filter that counts the callers between their question and their answer.
type memory struct {
	takes  time.Duration
	inside atomic.Int64
	most   atomic.Int64

	mu   sync.Mutex
	seen map[string]bool
}

func (m *memory) Check(ctx context.Context, _ string, uris []string) ([]bool, error) {
	if n := m.inside.Add(1); n > m.most.Load() {
		m.most.Store(n)
	}
	m.mu.Lock()
	fresh := make([]bool, len(uris))
	none := true
	for i, uri := range uris {
		fresh[i] = !m.seen[uri]
		none = none && !fresh[i]
	}
	m.mu.Unlock()
	time.Sleep(m.takes)
	if none { // it will not be told
		m.inside.Add(-1)
	}
	return fresh, nil
}

func (m *memory) Remember(_ context.Context, _ string, uris []string) error {
	defer m.inside.Add(-1)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uri := range uris {
		m.seen[uri] = true
	}
	return nil
}

func (m *memory) Close() error { return nil }

// open makes a store with n jobs.
func open(t *testing.T, n int) (*sqlite.Store, []download.Job) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var jobs []download.Job
	for i := range n {
		j, err := s.AddJob(t.Context(), download.Job{Name: fmt.Sprint("job", i), Filter: "uri", Setting: download.Setting{Lane: download.Normal, MaxAttempts: 1}})
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	return s, jobs
}

func tasksOf(t *testing.T, from, n int) []download.NewTask {
	t.Helper()
	tasks := make([]download.NewTask, n)
	for i := range tasks {
		var err error
		if tasks[i], err = download.TaskOf(fmt.Sprint("http://a/", from+i)); err != nil {
			t.Fatal(err)
		}
	}
	return tasks
}

func total(t *testing.T, s *sqlite.Store, jobs []download.Job) (sum int) {
	t.Helper()
	for _, j := range jobs {
		counts, err := s.Counts(t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range counts {
			sum += n
		}
	}
	return sum
}

// If several processes take in the same URIs for jobs with the same filter, one of them gets each URI.
func TestIntakesOfOneFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, jobs := open(t, 3)
		defer s.Close()
		filter := &memory{takes: time.Millisecond, seen: map[string]bool{}}
		var adding sync.WaitGroup
		for i, j := range jobs {
			in := New(s, filter, fmt.Sprint("master", i))
			for part := range 20 {
				adding.Go(func() {
					if _, err := in.Add(t.Context(), j, tasksOf(t, part*10, 10)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		adding.Wait()
		if n := total(t, s, jobs); n != 200 || filter.most.Load() != 1 {
			t.Errorf("%d tasks of 200 URIs, %d at once at the filter", n, filter.most.Load())
		}
		if held, err := s.Holders(t.Context(), lockPrefix); err != nil || len(held) != 0 {
			t.Errorf("still held: %v, %v", held, err)
		}
	})
}

// A turn lasts as long as its work does, and others wait. The turn of a process that was killed expires.
func TestTurnsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, jobs := open(t, 2)
		defer s.Close()
		if _, err := s.Hold(t.Context(), "killed", []string{lockPrefix + "uri"}, lockFor); err != nil {
			t.Fatal(err)
		}
		filter := &memory{takes: 10 * lockFor, seen: map[string]bool{}}
		began := time.Now()
		var adding sync.WaitGroup
		for i, j := range jobs {
			adding.Go(func() {
				if _, err := New(s, filter, fmt.Sprint("master", i)).Add(t.Context(), j, tasksOf(t, 0, 5)); err != nil {
					t.Error(err)
				}
			})
		}
		adding.Wait()
		if n := total(t, s, jobs); n != 5 || filter.most.Load() != 1 {
			t.Errorf("%d tasks of 5 URIs, %d at once at the filter", n, filter.most.Load())
		}
		if spent := time.Since(began); spent < 21*lockFor || spent > 22*lockFor {
			t.Errorf("took %s, want one turn after the other, and that of the dead: 21 times %s", spent, lockFor)
		}
	})
}

// cut is a store that no longer lets one owner hold names.
type cut struct {
	Store
	off atomic.Bool
}

var errCut = errors.New("the store does not answer")

func (c *cut) Hold(ctx context.Context, owner string, names []string, ttl time.Duration) ([]string, error) {
	if c.off.Load() {
		return nil, errCut
	}
	return c.Store.Hold(ctx, owner, names, ttl)
}

// slow is a store whose AddTasks waits until its context ends.
type slow struct{ *cut }

func (s slow) AddTasks(ctx context.Context, _ int64, _ []download.NewTask) (int, error) {
	s.off.Store(true)
	<-ctx.Done()
	return 0, ctx.Err()
}

// A caller that cannot renew its turn stops before another can have it, and says so.
func TestATurnIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, jobs := open(t, 1)
		defer s.Close()
		filter := &memory{seen: map[string]bool{}}
		began := time.Now()
		_, err := New(slow{&cut{Store: s}}, filter, "master").Add(t.Context(), jobs[0], tasksOf(t, 0, 1))
		if !errors.Is(err, errLockLost) || time.Since(began) > lockFor {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if n, err := New(s, filter, "other").Add(t.Context(), jobs[0], tasksOf(t, 0, 1)); err != nil || n.Added != 1 {
			t.Errorf("the other: %+v, %v", n, err)
		}
	})
}

// A caller that leaves while it waits for its turn gets no turn.
func TestATurnIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, jobs := open(t, 1)
		defer s.Close()
		if _, err := s.Hold(t.Context(), "other", []string{lockPrefix + "uri"}, time.Hour); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := New(s, &memory{seen: map[string]bool{}}, "master").Add(ctx, jobs[0], tasksOf(t, 0, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if n := total(t, s, jobs); n != 0 {
			t.Errorf("%d tasks", n)
		}
	})
}

// A caller of several filters gets its turn at all of them, in whatever order; nobody waits for ever.
func TestTurnsAtSeveralFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, jobs := open(t, 2)
		defer s.Close()
		filter := &memory{takes: time.Millisecond, seen: map[string]bool{}}
		var adding sync.WaitGroup
		for i, names := range [][]string{{"uri", "page"}, {"page", "uri", "page"}} {
			in := New(s, filter, fmt.Sprint("master", i))
			for part := range 20 {
				adding.Go(func() {
					if _, err := in.AddThrough(t.Context(), jobs[i], names, tasksOf(t, part, 1)); err != nil {
						t.Error(err)
					}
				})
			}
		}
		adding.Wait()
		if n := total(t, s, jobs); n != 20 {
			t.Errorf("%d tasks of 20 URIs", n)
		}
	})
}
