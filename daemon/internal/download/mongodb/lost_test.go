package mongodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

var allShards = func() []int {
	all := make([]int, download.Shards)
	for i := range all {
		all[i] = i
	}
	return all
}()

func newJob(name string) download.Job {
	return download.Job{Name: name, On: true, Setting: download.Setting{Lane: download.Normal, MaxAttempts: 3}}
}

func newTasks(n int) []download.NewTask {
	tasks := make([]download.NewTask, n)
	for i := range tasks {
		tasks[i] = download.NewTask{URI: fmt.Sprintf("https://host%d.example/%d", i%7, i), Shard: i % download.Shards}
	}
	return tasks
}

func wish(owner string, limit int) download.Want {
	return download.Want{Owner: owner, Max: limit, For: time.Hour, Shards: allShards, Lanes: download.Lanes()}
}

// TestLostAnswers breaks connections after a command was carried out: the call must still return
// the true outcome, because no other caller has touched the same data.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	turns := start(t)
	ctx := context.Background()
	s := open(t, Options{URI: turns.URI(), Database: newDatabase()})
	defer s.Close()
	need := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	var mu sync.Mutex
	var losing map[string]bool
	lost := 0
	// The next of each of these commands gets no answer.
	lose := func(commands ...string) {
		mu.Lock()
		defer mu.Unlock()
		losing = map[string]bool{}
		for _, c := range commands {
			losing[c] = true
		}
	}
	turns.Lose(func(command string) bool {
		mu.Lock()
		defer mu.Unlock()
		if !losing[command] {
			return false
		}
		delete(losing, command)
		lost++
		return true
	})
	lose("insert")
	_, err := s.AddJob(ctx, newJob("news"))
	need("add job", err)
	lose("update")
	j, err := s.ChangeJob(ctx, download.Job{Name: "news", Setting: download.Setting{Lane: download.Normal, MaxAttempts: 5}})
	need("change job", err)
	if j.Version != 2 {
		t.Errorf("version %d, want 2", j.Version)
	}
	_, err = s.AddTasks(ctx, j.ID, newTasks(8))
	need("add tasks", err)
	lose("update", "find")
	handed, err := s.HandOut(ctx, j.ID, 8, 0, time.Hour)
	need("hand out", err)
	lose("update", "find")
	leases, err := s.Lease(ctx, wish("w", 8))
	need("lease", err)
	if len(handed) != 8 || len(leases) != 8 {
		t.Fatalf("handed out %d, leased %d, want 8 and 8", len(handed), len(leases))
	}
	for _, l := range leases {
		if l.Task.Attempts != 1 || l.Task.Fence != 1 || l.Version != 2 {
			t.Errorf("leased twice: %+v", l)
		}
	}
	lose("update")
	left, err := s.Renew(ctx, "w", leases, time.Hour)
	if err != nil || len(left) != 0 {
		t.Errorf("renew: lost %v, %v", left, err)
	}
	lose("insert", "update")
	need("finish", s.Finish(ctx, leases[0], download.Result{Status: 200, Body: strings.NewReader("small")}, download.Attempt{}))
	lose("insert", "update")
	need("finish large", s.Finish(ctx, leases[1], download.Result{Status: 200, Body: strings.NewReader(strings.Repeat("x", 3*inline))}, download.Attempt{}))
	lose("insert", "update")
	need("fail", s.Fail(ctx, leases[2], download.Attempt{Reason: "no"}, time.Time{}))
	lose("update")
	need("give back", s.GiveBack(ctx, leases[3], time.Time{}))
	lose("update")
	if held, err := s.Hold(ctx, "w", []string{"a", "b"}, time.Hour); err != nil || len(held) != 2 {
		t.Errorf("hold: %v, %v", held, err)
	}
	lose("update", "find")
	if held, err := s.Hold(ctx, "v", []string{"a", "b", "c"}, time.Hour); err != nil || len(held) != 1 || held[0] != "c" {
		t.Errorf("hold: %v, %v", held, err)
	}
	for _, l := range leases[:4] {
		if err := s.Fail(ctx, l, download.Attempt{Reason: "late"}, time.Time{}); !errors.Is(err, download.ErrLeaseLost) {
			t.Errorf("settled twice: %v", err)
		}
	}
	counts, err := s.Counts(ctx, j.ID)
	need("counts", err)
	if counts[download.Done] != 2 || counts[download.Failed] != 1 || counts[download.Waiting] != 1 || counts[download.Running] != 4 {
		t.Errorf("counts %v", counts)
	}
	logs := 0
	need("logs", s.ListLogs(ctx, download.Query{Job: j.ID}, func(download.Log) error { logs++; return nil }))
	if logs != 3 {
		t.Errorf("%d logs, want 3", logs)
	}
	if lost < 15 {
		t.Errorf("%d answers were lost: want 15 or more", lost)
	}
	lose("update")
	need("drop", s.DropJob(ctx, "news"))
	if _, err := s.Job(ctx, "news"); !errors.Is(err, download.ErrNoJob) {
		t.Errorf("dropped job: %v", err)
	}
}

// TestLostAnswersOfMany uses the handles of two processes, with the server's clock, and loses one
// answer in forty: each task is settled once, and what was acknowledged is stored.
func TestLostAnswersOfMany(t *testing.T) {
	t.Parallel()
	const n = 24 // FerretDB reads all tasks for most commands
	turns := start(t)
	ctx := context.Background()
	o := Options{URI: turns.URI(), Database: newDatabase()}
	stores := []*Store{open(t, o), open(t, o)}
	j, err := stores[0].AddJob(ctx, newJob("news"))
	if err != nil {
		t.Fatal(err)
	}
	if added, err := stores[1].AddTasks(ctx, j.ID, newTasks(n)); err != nil || added != n {
		t.Fatalf("added %d, %v", added, err)
	}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	turns.Lose(func(command string) bool {
		mu.Lock()
		defer mu.Unlock()
		return command != "hello" && command != "isMaster" && random.IntN(40) == 0
	})
	settled := map[string]string{}
	var wait sync.WaitGroup
	for i := range 6 {
		s, owner := stores[i%2], fmt.Sprint("worker", i)
		wait.Go(func() {
			for {
				if _, err := s.HandOut(ctx, j.ID, 5, 0, time.Hour); err != nil {
					t.Error(err)
					return
				}
				leases, err := s.Lease(ctx, wish(owner, 3))
				if err != nil {
					t.Error(err)
					return
				}
				if len(leases) == 0 {
					return
				}
				for _, l := range leases {
					text := owner + " " + l.Task.ID
					if err := s.Finish(ctx, l, download.Result{Status: 200, Body: strings.NewReader(text)}, download.Attempt{}); err != nil {
						t.Errorf("finish: %v", err) // nobody else has it: its lease still holds
						continue
					}
					mu.Lock()
					if before := settled[l.Task.ID]; before != "" {
						t.Errorf("%s: settled by %s and %s", l.Task.ID, before, owner)
					}
					settled[l.Task.ID] = owner
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	turns.Lose(nil)
	counts, err := stores[0].Counts(ctx, j.ID)
	if err != nil || counts[download.Done] != n || len(settled) != n {
		t.Errorf("%v, %v: want %d done, %d were acknowledged", counts, err, n, len(settled))
	}
	data, logs := 0, 0
	err = errors.Join(
		stores[1].ListData(ctx, download.Query{Job: j.ID}, func(download.Data) error { data++; return nil }),
		stores[1].ListLogs(ctx, download.Query{Job: j.ID}, func(download.Log) error { logs++; return nil }))
	if err != nil || data != n || logs != n {
		t.Errorf("%d data, %d logs, %v: want %d of each", data, logs, err, n)
	}
	for _, s := range stores {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
