//go:build linux

package kills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// scores counts how often each item was called new in an answer.
type scores struct {
	mu    sync.Mutex
	new   map[string]int
	acked map[string]bool

	refusals atomic.Int64
}

// await waits until this many items are acknowledged.
func (a *scores) await(t *testing.T, items int) {
	t.Helper()
	testserver.Await(t, fmt.Sprintf("%d items acknowledged", items), func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.acked) >= items
	})
}

// awaitAcquaintance waits until two daemons have each read a heartbeat of the other: each reads
// those of all when it writes its own.
func awaitAcquaintance(t *testing.T, server *redistest.Server) {
	t.Helper()
	beats := func() map[string]string {
		found := map[string]string{}
		text := strings.Fields(server.CLI("HGETALL", "urifilter:members"))
		for i := 0; i+1 < len(text); i += 2 {
			found[text[i]] = text[i+1]
		}
		return found
	}
	for range 3 {
		before := beats()
		testserver.Await(t, "heartbeats of two daemons go on", func() bool {
			now := beats()
			for id, beat := range now {
				if beat == before[id] {
					return false
				}
			}
			return len(now) == 2
		})
	}
}

func (a *scores) note(asked, isNew []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, item := range asked {
		a.acked[item] = true
	}
	for _, item := range isNew {
		a.new[item]++
	}
}

func (a *scores) mustBeOnce(t *testing.T) {
	t.Helper()
	for item, n := range a.new {
		if n > 1 {
			t.Fatalf("%s was new %d times", item, n)
		}
	}
}

// ask posts items to one of the daemons, retries until it gets an answer, and counts the
// refusals.
func (a *scores) ask(ps []*processtest.Process, pick int, items []string) error {
	body, _ := json.Marshal(map[string]any{"filter_typeid": "uri", "uri_list": items})
	for tries, end := 0, time.Now().Add(3*time.Minute); time.Now().Before(end); tries++ {
		status, answer, err := ps[(pick+tries)%len(ps)].Post(context.Background(), "/api/v1/filter", string(body))
		if err != nil || status == http.StatusServiceUnavailable {
			a.refusals.Add(1)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		var got client.FilterResult[string]
		if err := json.Unmarshal([]byte(answer), &got); status != http.StatusOK || err != nil {
			return fmt.Errorf("status %d: %s", status, answer)
		}
		a.note(items, got.URIList)
		return nil
	}
	return fmt.Errorf("no answer after 3 min")
}

// storm lets 16 callers send overlapping items to the daemons while disturb runs.
func storm(t *testing.T, ps []*processtest.Process, rounds int, disturb func(*scores)) *scores {
	t.Helper()
	a := &scores{new: map[string]int{}, acked: map[string]bool{}}
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			for round := range rounds {
				items := make([]string, 200)
				for i := range items {
					// Every item is sent by four callers, at about the same time.
					items[i] = fmt.Sprintf("https://example.com/%d/%d/%d", caller%4, round, i)
				}
				if err := a.ask(ps, caller, items); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if disturb != nil {
		disturb(a)
	}
	wg.Wait()
	return a
}

func (a *scores) mustBeRemembered(t *testing.T, p *processtest.Process) {
	t.Helper()
	var items []string
	for item := range a.acked {
		items = append(items, item)
	}
	for len(items) > 0 {
		n := min(10_000, len(items))
		body, _ := json.Marshal(map[string]any{"filter_typeid": "uri", "uri_list": items[:n]})
		if got := p.MustPost("/api/v1/filter", string(body), 200); !strings.Contains(got, `"uri_list":[]`) {
			t.Fatalf("acknowledged items are new again: %.300s\n%s", got, p.Log)
		}
		items = items[n:]
	}
}

func TestTwoDaemonsOnOneRedis(t *testing.T) {
	t.Parallel()
	for name, addrs := range map[string]func(t *testing.T) []string{
		"standalone": func(t *testing.T) []string { return []string{redistest.Start(t).Addr} },
		"cluster": func(t *testing.T) []string {
			var addrs []string
			for _, s := range redistest.Cluster(t, nil) {
				addrs = append(addrs, s.Addr)
			}
			return addrs
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := processtest.OnRedis(addrs(t)...)
			ps := []*processtest.Process{processtest.Start(t, t.TempDir(), env), processtest.Start(t, t.TempDir(), env)}
			a := storm(t, ps, 20, nil)
			a.mustBeOnce(t)
			if want := 4 * 20 * 200; len(a.new) < want-want/1000 {
				t.Errorf("%d of %d items were new for somebody", len(a.new), want)
			}
			if n := a.refusals.Load(); n > 0 {
				t.Errorf("%d refusals while nothing was wrong\n%s", n, ps[0].Log)
			}
			// One daemon is killed and started again in the middle.
			a = storm(t, ps, 30, func(a *scores) {
				a.await(t, 2000)
				addr := ps[1].Addr
				_ = ps[1].End(syscall.SIGKILL)
				a.await(t, 10_000)
				processtest.BeginAt(t, addr, t.TempDir(), env).AwaitReady()
			})
			a.mustBeOnce(t)
			a.mustBeRemembered(t, ps[0])
		})
	}
}

func TestRedisKilledUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	env := processtest.OnRedis(server.Addr)
	ps := []*processtest.Process{processtest.Start(t, t.TempDir(), env), processtest.Start(t, t.TempDir(), env)}
	awaitAcquaintance(t, server)
	a := storm(t, ps, 150, func(a *scores) {
		a.await(t, 5000)
		server.Kill() // without persistence: it comes back empty
		testserver.Await(t, "the outage is noticed", func() bool { return a.refusals.Load() > 0 })
		for _, p := range ps {
			status, answer, err := p.Post(context.Background(), "/api/v1/filter", processtest.List(t, "during the outage"))
			if err != nil || status != http.StatusServiceUnavailable {
				t.Errorf("during the outage: %d, %v: %s", status, err, answer)
			}
			testserver.Await(t, "during the outage a daemon is not ready", func() bool {
				status, _, err := p.Get("/readyz")
				return err == nil && status == http.StatusServiceUnavailable
			})
		}
		server.Run()
	})
	a.mustBeOnce(t)
	for _, p := range ps {
		a.mustBeRemembered(t, p)
	}
}

func TestFiltersAreSharedAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	env := processtest.OnRedis(server.Addr)
	a, b := processtest.Start(t, t.TempDir(), env), processtest.Start(t, t.TempDir(), env)
	req, _ := http.NewRequest(http.MethodPut, "http://"+a.Addr+"/api/v1/filters/extra", strings.NewReader(`{"capacity":1000}`))
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("PUT: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	const body = `{"filter_typeid":"extra","uri_list":["x"]}`
	testserver.Await(t, "the other daemon sees the filter", func() bool {
		status, answer, err := b.Post(context.Background(), "/api/v1/filter", body)
		if err != nil || status != http.StatusOK {
			return false
		}
		processtest.MustContain(t, answer, `["x"]`)
		return true
	}, b.Log)
	processtest.MustContain(t, a.MustPost("/api/v1/filter", body, 200), `"uri_list":[]`)
}

func TestRedisRefusals(t *testing.T) {
	t.Parallel()
	evicting := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	locked := redistest.Start(t, "--requirepass", "secret")
	for addr, wants := range map[string][]string{
		evicting.Addr: {"allkeys-lru", "noeviction", "hint:"},
		locked.Addr:   {"NOAUTH", "redis.password_file", "hint:"},
		"127.0.0.1:1": {"127.0.0.1:1", "hint:"},
	} {
		processtest.MustContain(t, processtest.MustRefuse(t, processtest.OnRedis(addr), "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()), wants...)
	}
}
