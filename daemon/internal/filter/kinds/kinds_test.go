package kinds

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// What the settings say that filters of a kind can do is what their memory can do.
func TestKindsCanWhatTheySay(t *testing.T) {
	for _, k := range All() {
		says, ok := configs.KindOf(k.Name)
		if !ok {
			t.Errorf("%s is not in the settings", k.Name)
			continue
		}
		spec := engine.Spec{ID: 1, Name: "x", Kind: k.Name}.Complete(configs.Defaults{Capacity: 1000, ErrorRate: 0.01})
		m, err := k.New(spec, engine.Identity{Seed: 42, Generation: 1, Created: time.Unix(1_700_000_000, 0)}, timing.SystemClock())
		if err != nil {
			t.Fatal(err)
		}
		_, bitMap := m.(kind.BitMap)
		_, forgets := m.(kind.Forgetful)
		_, reserves := m.(kind.Reserving)
		_, expires := m.(kind.Expiring)
		_, texts := m.(kind.Similar)
		for _, c := range []struct {
			what     string
			says, is bool
		}{
			{"has a bit-map", says.BitMap, bitMap}, {"forgets", says.Forgets, forgets}, {"reserves", says.Reserves, reserves},
			{"expires", configs.Expires(k.Name), expires}, {"takes texts", says.Texts, texts},
		} {
			if c.says != c.is {
				t.Errorf("%s %s: %v in the settings, %v in memory", k.Name, c.what, c.says, c.is)
			}
		}
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	}
}

// However a number of new items comes, in calls of any sizes that have asked for room together, the
// memory is afterwards no larger than it said before.
func TestMemoryForHoldsForCallsAtOnce(t *testing.T) {
	for _, k := range All() {
		if k.Name == "simhash" { // keeps documents; see there
			continue
		}
		for seed := range uint64(50) {
			testMemoryFor(t, k, rand.New(rand.NewPCG(1, seed)))
		}
	}
}

func testMemoryFor(t *testing.T, k kind.Kind, random *rand.Rand) {
	spec := engine.Spec{ID: 1, Name: "x", Kind: k.Name}.Complete(configs.Defaults{Capacity: 1000, ErrorRate: 0.01})
	m, err := k.New(spec, engine.Identity{Seed: random.Uint64(), Generation: 1, Created: time.Unix(1_700_000_000, 0)}, timing.SystemClock())
	if err != nil {
		t.Fatal(err)
	}
	m.Log(discard{})
	for items := 0; items < 10_000; {
		calls := make([][]bloom.Hash, 1+random.IntN(4))
		all := 0
		for i := range calls {
			calls[i] = make([]bloom.Hash, 1+random.IntN(1+items>>(3+random.IntN(6))))
			for n := range calls[i] {
				calls[i][n] = bloom.Hash{Hi: random.Uint64(), Lo: random.Uint64()}
			}
			all += len(calls[i])
		}
		promised := m.MemoryFor(engine.More{Items: all})
		for _, keys := range calls {
			fresh := make([]bool, len(keys))
			if timed, ok := m.(kind.Expiring); ok {
				_, err = timed.AddFor(keys, time.Hour, fresh)
			} else {
				_, err = m.(kind.Keyed).Add(keys, fresh)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		items += all
		if now := m.MemoryFor(engine.More{}); now > promised {
			t.Errorf("%s: %d bytes with %d items, after %d calls with %d together, for which it promised %d", k.Name, now, items, len(calls), all, promised)
		}
	}
	if err := m.Free(); err != nil {
		t.Error(err)
	}
}

// discard is a journal that keeps nothing.
type discard struct{}

func (discard) Append([]bloom.Hash, []bool) {}
func (discard) AppendEntries([]bloom.Hash)  {}
