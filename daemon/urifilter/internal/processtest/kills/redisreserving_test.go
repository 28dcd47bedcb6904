//go:build linux

package kills_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/storetest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// shared is a filter in Redis of which many callers reserve, at two daemons.
type shared struct {
	filter  string
	daemons []*processtest.Process // whose addresses stay, whoever is there
	facts   storetest.Holdings
	answers atomic.Int64
}

const sharedItems = 3000

func (s *shared) uris(items []int) (uris []string) {
	for _, item := range items {
		uris = append(uris, fmt.Sprintf("https://example.com/job/%d", item))
	}
	return uris
}

func (s *shared) items(t *testing.T, uris []string) (items []int) {
	for _, uri := range uris {
		item, err := strconv.Atoi(uri[strings.LastIndexByte(uri, '/')+1:])
		if err != nil {
			t.Error(err)
		}
		items = append(items, item)
	}
	return items
}

// post makes a call once; false: it has no answer, or the store was away.
func (s *shared) post(pick int, path string, body map[string]any, into any) (answered bool, err error) {
	body["filter_typeid"] = s.filter
	text, _ := json.Marshal(body)
	status, answer, err := s.daemons[pick%len(s.daemons)].Post(context.Background(), "/api/v1/"+path, string(text))
	if err != nil || status == http.StatusServiceUnavailable {
		return false, nil
	}
	if err := json.Unmarshal([]byte(answer), into); status != http.StatusOK || err != nil {
		return true, fmt.Errorf("%s: status %d: %.300s", path, status, answer)
	}
	s.answers.Add(1)
	return true, nil
}

// reserve is made once: an answer that is lost leaves the items held until their lease ends.
func (s *shared) reserve(t *testing.T, pick int, items []int, lease time.Duration) (got client.ReserveResult[string], mine []int, err error) {
	asked := time.Now()
	answered, err := s.post(pick, "reserve", map[string]any{"uri_list": s.uris(items), "lease": lease.Seconds()}, &got)
	if !answered || err != nil {
		return got, nil, err
	}
	mine = s.items(t, got.URIList)
	s.facts.Given(mine, got.Reservation, asked, lease)
	return got, mine, nil
}

// settle is made until it is answered, by whichever daemon.
func (s *shared) settle(t *testing.T, pick int, path, id string, items []int) error {
	asked := time.Now()
	s.facts.Settling(items, id)
	for end := asked.Add(4 * time.Minute); time.Now().Before(end); pick++ {
		var got client.SettleResult[string]
		answered, err := s.post(pick, path, map[string]any{"uri_list": s.uris(items), "reservation": id}, &got)
		if err != nil {
			return err
		}
		if !answered {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if got.Done+got.LostTotal != len(items) {
			return fmt.Errorf("%s of %d: %d done, %d lost", path, len(items), got.Done, got.LostTotal)
		}
		if path == "commit" {
			lost := s.items(t, got.Lost)
			s.facts.Seen(slices.DeleteFunc(slices.Clone(items), func(item int) bool { return slices.Contains(lost, item) }), id, asked)
		}
		return nil
	}
	return fmt.Errorf("%s: no answer after 4 min", path)
}

// load is one caller, until stop is closed.
func (s *shared) load(t *testing.T, caller int, stop <-chan struct{}) error {
	const lease = 2 * time.Second
	rnd := rand.New(rand.NewPCG(3, uint64(caller)))
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		var items []int
		for from := rnd.IntN(sharedItems - 30); len(items) < 30; from++ {
			items = append(items, from)
		}
		pick := rnd.IntN(2)
		got, mine, err := s.reserve(t, pick, items, lease)
		switch {
		case err != nil:
			return err
		case len(mine) == 0:
			time.Sleep(time.Millisecond) // or the daemon is away
			continue
		}
		switch rnd.IntN(8) {
		case 0: // few are committed, so that there is always something to reserve
			err = s.settle(t, pick, "commit", got.Reservation, mine[:1+len(mine)/4])
		case 1:
			time.Sleep(lease) // others may have them
			err = s.settle(t, pick, "commit", got.Reservation, mine[:1])
		case 2: // left to others
		default:
			err = s.settle(t, pick, "release", got.Reservation, mine)
		}
		if err != nil {
			return err
		}
	}
}

// awaitFree waits until all items that nobody has committed can be reserved.
func (s *shared) awaitFree(t *testing.T) (free int) {
	t.Helper()
	var items []int
	for item := range sharedItems {
		if !s.facts.IsSeen(item) {
			items = append(items, item)
		}
	}
	got := map[int]bool{}
	processtest.Eventually(t, "all leases end", func() bool {
		_, mine, err := s.reserve(t, 0, items, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range mine {
			got[item] = true
		}
		return len(got) == len(items)
	})
	return len(items)
}

// 16 callers reserve, commit and release at two daemons, which are killed in turn and started
// again, as is Redis, which has all on its disk: no item is two callers', none that was
// committed is new, and all others are free in the end.
func TestSystemReservingOnRedisKilled(t *testing.T) {
	const kills = 18
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	env := append(processtest.OnRedis(server.Addr), `URIFILTER_FILTERS=[{id: 7, name: jobs, kind: exact}, {id: 8, name: news, kind: timing, expire: 24h}]`)
	dirs := []string{t.TempDir(), t.TempDir()}
	daemons := []*processtest.Process{processtest.Start(t, dirs[0], env), processtest.Start(t, dirs[1], env)}
	filters := []*shared{{filter: "jobs", daemons: daemons}, {filter: "news", daemons: daemons}}
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for caller := range 16 {
		s := filters[caller%2]
		callers.Go(func() {
			if err := s.load(t, caller, stop); err != nil {
				t.Errorf("%s: caller %d: %v", s.filter, caller, err)
			}
		})
	}
	alive := slices.Clone(daemons)
	for kill := range kills {
		for _, s := range filters {
			before := s.answers.Load()
			processtest.Eventually(t, "callers have answers", func() bool { return s.answers.Load() >= before+100 || t.Failed() })
		}
		if t.Failed() {
			break
		}
		switch which := kill % 3; which {
		case 2:
			server.Kill()
			server.Run()
		default:
			_ = alive[which].End(syscall.SIGKILL)
			alive[which] = processtest.BeginAt(t, daemons[which].Addr, dirs[which], env).AwaitReady()
		}
	}
	close(stop)
	callers.Wait()
	for _, s := range filters {
		given, seen := s.facts.Count()
		free := s.awaitFree(t)
		if faults := s.facts.Check(); len(faults) > 0 {
			t.Errorf("%s: %d items: %.2000v", s.filter, len(faults), faults)
		}
		t.Logf("%s: %d kills, %d answers; %d times an item was given to somebody; in the end %d are committed, %d free", s.filter, kills, s.answers.Load(), given, seen, free)
	}
	for _, p := range alive {
		if strings.Contains(p.Log.String(), "panic") {
			t.Errorf("%s", p.Log)
		}
	}
}
