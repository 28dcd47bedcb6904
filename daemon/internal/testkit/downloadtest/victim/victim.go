// Package victim is a process that uses a store of package download until it is killed, and the
// code that kills it. The suite of package downloadtest then checks the state of the store.
package victim

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

var ctx = context.Background()

// Use uses a store until its process is killed: it adds tasks, hands them out, leases and
// settles them, with eight callers at once, and prints what was acknowledged, one line each.
// name distinguishes the runs, and large is a size at which bodies are kept in a different way.
func Use(s download.Store, name string, large int) error {
	var out sync.Mutex
	say := func(format string, a ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", a...)
	}
	j, err := s.AddJob(ctx, download.Job{
		Name: "news", On: true, Filter: "uri_download",
		Setting: download.Setting{Dispatch: 100, Engine: download.EngineHTTP, Lane: download.Normal, Timeout: 30 * time.Second, MaxAttempts: 3},
	})
	if errors.Is(err, download.ErrExists) {
		j, err = s.Job(ctx, "news")
	}
	if err != nil {
		return err
	}
	say("ready")
	failed := make(chan error, 8)
	for i := range 8 {
		go func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))
			owner := fmt.Sprintf("%s-%d", name, i)
			for k := 0; ; k++ {
				if err := step(s, j.ID, owner, k, large, random, say); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func step(s download.Store, job int64, owner string, k, large int, random *rand.Rand, say func(string, ...any)) error {
	var tasks []download.NewTask
	for n := range 1 + random.IntN(20) {
		tasks = append(tasks, download.NewTask{URI: fmt.Sprintf("https://x/%s/%d/%d", owner, k, n), Shard: random.IntN(download.Shards)})
	}
	if _, err := s.AddTasks(ctx, job, tasks); err != nil {
		return err
	}
	for _, t := range tasks {
		say("added %s", download.TaskID(job, t.URI))
	}
	if _, err := s.HandOut(ctx, job, 20, int64(random.IntN(3)), time.Hour); err != nil {
		return err
	}
	leases, err := s.Lease(ctx, download.Want{Owner: owner, Max: 12, For: time.Hour, Shards: AllShards(), Lanes: download.Lanes()})
	if err != nil {
		return err
	}
	for _, l := range leases {
		switch random.IntN(8) {
		case 0:
			if err = s.Fail(ctx, l, download.Attempt{Reason: "no " + owner}, time.Time{}); err == nil {
				say("failed %s %s", l.Task.ID, owner)
			}
		case 1:
			err = s.GiveBack(ctx, l, time.Time{})
		case 2: // left to the sweep
		default:
			size := random.IntN(300)
			if random.IntN(10) == 0 {
				size = large + 1 + random.IntN(large)
			}
			text := fmt.Sprintf("%s %d %*d", owner, k, size, 1)
			if err = s.Finish(ctx, l, download.Result{URI: l.Task.URI, Status: 200, Body: strings.NewReader(text)}, download.Attempt{Status: 200, HostName: owner}); err == nil {
				say("done %s %s", l.Task.ID, fmt.Sprintf("%x", sha256.Sum256([]byte(text))))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AllShards are the numbers of all shards.
func AllShards() []int {
	all := make([]int, download.Shards)
	for i := range all {
		all[i] = i
	}
	return all
}

// KillAfter runs a victim, kills it after it has printed n lines, and returns all that it had
// printed until it was dead.
func KillAfter(t *testing.T, cmd *exec.Cmd, n int) []string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	var lines []string
	in := bufio.NewReader(out)
	started := false
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) || err != nil { // a partial line does not count
			break
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "ready" {
			started = true
			continue
		}
		if lines = append(lines, line); len(lines) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if !started || len(lines) < n {
		t.Fatalf("the victim ended by itself: %v\n%s", lines, stderr.String())
	}
	return lines
}
