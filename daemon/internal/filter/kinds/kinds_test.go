package kinds

import (
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
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
