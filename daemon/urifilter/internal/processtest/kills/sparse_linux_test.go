package kills_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// Daemons limited to 512 MB by the kernel share a filter of 31 GB on a cluster of three masters. Its
// items fall into 32 of its 7,456 stripes, as the test does not have 31 GB either. Each is new once.
// After all masters came back empty, only items that both mirrors had evicted are new again. Mirrors
// have some 1,100 entries for a stripe, and it has an eighth as many items, so mostly there are none.
func TestSystemLargerThanMemory(t *testing.T) {
	const most, stripes, items = 256 << 20, 32, 4400
	masters := redistest.Cluster(t, nil)
	var addrs []string
	for _, s := range masters {
		addrs = append(addrs, s.Addr)
	}
	env := append(processtest.OnRedis(addrs...), `URIFILTER_FILTERS=[{id: 1, name: uri, capacity: 10000000000}]`, "URIFILTER_REDIS_MIRROR_BYTES=64MiB")
	var daemons []*processtest.Process
	for range 2 {
		p := processtest.Begin(t, t.TempDir(), env)
		limit := unix.Rlimit{Cur: 2 * most, Max: 2 * most}
		if err := unix.Prlimit(p.Cmd.Process.Pid, unix.RLIMIT_DATA, &limit, nil); err != nil {
			t.Fatal(err)
		}
		daemons = append(daemons, p.AwaitReady())
	}
	h := headerOf(t, masters)
	if h.Bytes() < 30e9 {
		t.Fatalf("a filter of %d bytes is not what this test is for", h.Bytes())
	}
	var chosen []any
	for n := 0; len(chosen) < items; n++ {
		uri := fmt.Sprintf("https://example.com/%d", n)
		if stripe, _ := h.Place(bloom.Sum(h.Seed, []byte(uri))); stripe < stripes {
			chosen = append(chosen, uri)
		}
	}

	const batch = 200
	var mu sync.Mutex
	wins := map[string]int{}
	var wait sync.WaitGroup
	for caller := range 4 {
		wait.Go(func() {
			for i := range items / batch {
				at := (i + caller/2) * batch % items
				won, err := newOnes(daemons[caller%2], chosen[at:at+batch])
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, uri := range won {
					wins[uri]++
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	for uri, n := range wins {
		if n > 1 {
			t.Errorf("%s was new %d times", uri, n)
		}
	}
	if len(wins) != items { // such a sparse filter has no false positives
		t.Errorf("%d of %d items were new", len(wins), items)
	}

	evicted := min(evictedItems(t, daemons[0]), evictedItems(t, daemons[1]))
	if evicted > items/1000 {
		t.Errorf("each mirror has let go of %d of %d items or more: it is smaller than it may be", evicted, items)
	}
	for _, s := range masters {
		s.CLI("flushall")
	}
	// The mirrors know most items without asking Redis. An item that is in none shows that data was lost.
	if won, err := newOnes(daemons[0], []any{"https://example.com/unasked"}); err != nil || len(won) != 1 {
		t.Fatalf("%q, %v\n%s", won, err, daemons[0].Log)
	}
	again := 0
	for i, p := range daemons {
		for at := 0; at < items; at += batch {
			won, err := newOnes(p, chosen[at:at+batch])
			if err != nil {
				t.Fatalf("%v\n%s", err, p.Log)
			}
			if again += len(won); i > 0 && len(won) > 0 {
				t.Errorf("%d items are new for the second daemon, after the first", len(won))
			}
		}
	}
	if again > evicted {
		t.Errorf("%d items are new again after Redis came back empty; both mirrors had let go of %d at most", again, evicted)
	}
	t.Logf("%d of %d items were new again, %d at most may be", again, items, evicted)
	for i, p := range daemons {
		peak := peakMemory(t, p)
		t.Logf("daemon %d: %d MB at most, for a filter of %d MB", i, peak>>20, h.Bytes()>>20)
		if peak > most {
			t.Errorf("daemon %d took %d bytes, want %d at most", i, peak, most)
		}
	}
}

// newOnes adds items until they are answered.
func newOnes(p *processtest.Process, items []any) ([]string, error) {
	body, err := json.Marshal(map[string]any{"filter_typeid": 1, "uri_list": items})
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, answer, err := p.Post(context.Background(), "/api/v1/filter", string(body))
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusOK:
			var got client.FilterResult[string]
			err := json.Unmarshal([]byte(answer), &got)
			return got.URIList, err
		case status != http.StatusServiceUnavailable || time.Now().After(deadline):
			return nil, fmt.Errorf("status %d: %s", status, answer)
		}
	}
}

// headerOf reads the header of the filter uri from the registry, which one of the masters has.
func headerOf(t *testing.T, masters []*redistest.Server) (h bloom.Header) {
	t.Helper()
	for _, s := range masters {
		var entry struct{ Map string }
		if text := s.CLI("hget", "urifilter:filters", "uri"); json.Unmarshal([]byte(text), &entry) != nil {
			continue // MOVED
		}
		raw, err := base64.StdEncoding.DecodeString(entry.Map)
		if err == nil {
			err = h.UnmarshalBinary(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	t.Fatal("no master has the registry")
	return h
}

// evictedItems is how many items the mirror of a daemon has evicted.
func evictedItems(t *testing.T, p *processtest.Process) int {
	t.Helper()
	_, metrics, err := p.Get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(metrics) {
		if text, ok := strings.CutPrefix(line, `urifilter_mirror_evicted_items_total{filter="uri"} `); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no urifilter_mirror_evicted_items_total in %s", metrics)
	return 0
}

// peakMemory is the peak memory of the process.
func peakMemory(t *testing.T, p *processtest.Process) uint64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(status) {
		if text, ok := strings.CutPrefix(string(line), "VmHWM:"); ok {
			kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("the system does not tell")
	return 0
}
