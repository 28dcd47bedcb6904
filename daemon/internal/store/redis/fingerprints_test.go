package redis

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// withFingerprints is a filter of the kind bloom without a bit-map.
func withFingerprints(capacity uint64) engine.Spec {
	return engine.Spec{ID: 9, Name: "prints", Kind: "bloom", Params: configs.Bloom{Capacity: capacity, ErrorRate: 1e-4, OnFull: "grow", Layout: "fingerprints"}}
}

func openedFingerprints(t testing.TB, c Config) (*Store, engine.Set) {
	return openedWith(t, c, withFingerprints(10_000))
}

// forEachInSets is forEachKind for those whose items are members of sets.
func forEachInSets(t *testing.T, test func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set))) {
	forEach(t, map[string]func(testing.TB, Config) (*Store, engine.Set){"exact": kinds["exact"], "fingerprints": kinds["fingerprints"]}, test)
}

// At 1,000 times its capacity a filter has called at most as many new items seen as it promises; so many
// that fingerprints, of which these items have 2^44, meet in one of a hundred runs.
func TestNoRaceFingerprintsBeyondCapacity(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--set-max-intset-entries", "16")
	_, s := openedWith(t, config(server.Addr), withFingerprints(600))
	const n = 600_000
	missed := 0
	for from := 0; from < n; from += 10_000 {
		missed += 10_000 - addTo(t, s, from, 10_000)
	}
	if missed > 2 {
		t.Errorf("%d new items of %d are seen", missed, n)
	}
	if got := s.Stats().Items; got != n-uint64(missed) {
		t.Errorf("%d items are counted", got)
	}
	if !strings.Contains(server.CLI("--scan", "--pattern", "*}2*"), "urifilter:{9:") {
		t.Error("no set was split twice")
	}
}

// A filter has as many sets from the start as its capacity wants, at every daemon, and two items are
// equal if they have one set and one fingerprint.
func TestFingerprintsOfOneSet(t *testing.T) {
	t.Parallel()
	for capacity, level := range map[uint64]string{1_310_720: "0", 1_310_721: "1", 20_000_000: "2", 1 << 40: "5"} {
		server := redistest.Start(t)
		storeA, a := openedWith(t, config(server.Addr), withFingerprints(capacity))
		_, b := openedWith(t, config(server.Addr), withFingerprints(capacity))
		keys := []bloom.Hash{{Hi: 5, Lo: 7}, {Hi: 5, Lo: 7 | 1<<32}, {Hi: 5, Lo: 7 | 1<<31}, {Hi: 5 | 1<<52, Lo: 7}}
		got := make([]bool, len(keys))
		if _, err := a.Add(context.Background(), keys, got); err != nil || !got[0] || got[1] || !got[2] || !got[3] {
			t.Errorf("capacity %d: got %v, %v; want the second to be equal to the first", capacity, got, err)
		}
		if n, err := b.Add(context.Background(), keys, got); n != 0 || err != nil {
			t.Errorf("capacity %d: %d are new for another daemon, %v", capacity, n, err)
		}
		prefix := registry.ItemPrefix(a.(base.Filter).Base().Entry)
		if keys := strings.Fields(server.CLI("--scan", "--pattern", prefix+"00}"+level+"*")); len(keys) != 2 {
			t.Errorf("capacity %d: the sets of level %s are %q, want two", capacity, level, keys)
		}
		if _, err := storeA.Create(context.Background(), withFingerprints(capacity+1), storetest.Identity()); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("another capacity: %v, want ErrConflict", err)
		}
	}
}

// Earlier versions look for a header in the entry of each bloom filter, and refuse one without.
func TestEntryOfFingerprints(t *testing.T) {
	e, err := registry.NewEntry(withFingerprints(10_000), storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.Encode()
	if err != nil || strings.Contains(text, `"map"`) || strings.Contains(text, `"header"`) {
		t.Errorf("%s, %v", text, err)
	}
	if got, err := registry.Decode("prints", text); err != nil || got != e {
		t.Errorf("got %+v, %v, want %+v", got, err, e)
	}
	if _, err := registry.Decode("prints", strings.Replace(text, "fingerprints", "later", 1)); err == nil {
		t.Error("a layout of a later version is accepted")
	}
}
