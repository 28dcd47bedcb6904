package sqlite

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// BenchmarkTasks measures the figures of docs/measured/downloads.md for this store, on the real clock
// and disk: tasks are added in calls of 100,000, 7,000 are handed out, and 64 workers lease ten
// at once and finish each separately with a page of 10,000 bytes, up to 20,000 tasks. The store
// is in the folder URIDOWNLOADER_BENCH_DIR, by default in a temporary one.
func BenchmarkTasks(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				benchmarkTasks(b, n)
			}
		})
	}
}

func benchmarkTasks(b *testing.B, n int) {
	ctx := context.Background()
	dir, err := os.MkdirTemp(os.Getenv("URIDOWNLOADER_BENCH_DIR"), "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := Open(ctx, Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	need := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	j, err := s.AddJob(ctx, download.Job{Name: "bench", On: true, Setting: download.Setting{Lane: download.Normal, MaxAttempts: 3}})
	need(err)

	start := time.Now()
	for from := 0; from < n; from += 100_000 {
		tasks := make([]download.NewTask, min(100_000, n-from))
		for i := range tasks {
			tasks[i] = download.NewTask{URI: fmt.Sprintf("https://www.example%03d.com/articles/2026/11/page-%012d.html", (from+i)%1000, from+i), Shard: (from + i) % download.Shards}
		}
		_, err := s.AddTasks(ctx, j.ID, tasks)
		need(err)
	}
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "added/s")
	need(s.Close())
	b.ReportMetric(float64(sizeOf(b, dir))/float64(n), "B/task")
	s, err = Open(ctx, Options{Dir: dir})
	need(err)
	defer s.Close()

	start = time.Now()
	tasks, err := s.HandOut(ctx, j.ID, 7000, 0, time.Hour)
	need(err)
	b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/7000-handed-out")
	rest, err := s.HandOut(ctx, j.ID, min(n, 20_000)-len(tasks), 0, time.Hour)
	need(err)
	todo := len(tasks) + len(rest)

	shards := make([]int, download.Shards)
	for i := range shards {
		shards[i] = i
	}
	var leased sync.Mutex
	var all []download.Lease
	start = time.Now()
	workers(64, func(owner string) bool {
		some, err := s.Lease(ctx, download.Want{Owner: owner, Max: 10, For: time.Hour, Shards: shards, Lanes: download.Lanes()})
		if err != nil {
			b.Error(err)
		}
		leased.Lock()
		defer leased.Unlock()
		all = append(all, some...)
		return len(some) > 0 && err == nil
	})
	b.ReportMetric(float64(len(all))/time.Since(start).Seconds(), "leased/s")
	if len(all) != todo {
		b.Fatalf("leased %d of %d", len(all), todo)
	}

	body := strings.Repeat("0123456789", 1000)
	var next atomic.Int64
	start = time.Now()
	workers(64, func(owner string) bool {
		i := next.Add(1) - 1
		if i >= int64(len(all)) {
			return false
		}
		err := s.Finish(ctx, all[i], download.Result{URI: all[i].Task.URI, Status: 200, Body: strings.NewReader(body)}, download.Attempt{Status: 200, HostName: owner, Spent: time.Second})
		if err != nil {
			b.Error(err)
		}
		return err == nil
	})
	b.ReportMetric(float64(len(all))/time.Since(start).Seconds(), "finished/s")
	b.ReportMetric(0, "ns/op")
}

// workers call work repeatedly until it returns false.
func workers(n int, work func(owner string) bool) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			for owner := fmt.Sprint("worker", i); work(owner); {
			}
		})
	}
	wait.Wait()
}

func sizeOf(b *testing.B, dir string) (size int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return size
}
