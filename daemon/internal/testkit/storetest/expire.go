package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// long is an expire that no test reaches.
const long = 24 * time.Hour

// oneTimed opens an empty store with a single filter whose items expire.
func oneTimed(t *testing.T, o Opener, spec engine.Spec) (engine.Store, engine.Timed) {
	t.Helper()
	store := open(t, o)
	load(t, store)
	return store, create(t, store, spec).(engine.Timed)
}

// expiring is the spec of a filter whose items expire after d.
func expiring(s Sample, name string, id int, d time.Duration) engine.Spec {
	f, err := engine.Spec{ID: id, Name: name, Kind: s.Kind}.WithStored(map[string]any{"expire_ms": d.Milliseconds()})
	if err != nil {
		panic(err) // of a test's own spec
	}
	return f
}

// AddFor adds items to a filter whose items expire and returns which were fresh.
func AddFor(t *testing.T, set engine.Timed, keys []bloom.Hash, expire time.Duration) []bool {
	t.Helper()
	fresh := make([]bool, len(keys))
	n, err := set.AddFor(context.Background(), keys, expire, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if got := count(fresh); got != n {
		t.Fatalf("AddFor returned %d and marked %d", n, got)
	}
	return fresh
}

// span is the time, by this process's clock, in which something was done.
type span struct{ from, to time.Time }

func timed(do func()) span {
	from := time.Now()
	do()
	return span{from, time.Now()}
}

// clockSlack is how far a store's clock may differ from this process's, because both count
// whole milliseconds.
const clockSlack = 20 * time.Millisecond

// Items are seen until their deadline and no longer, and a hit changes nothing. If the clock is
// real, the expected answer depends on when the calls were made: an answer is wrong only if no
// moment within its call could have given it.
func testDeadline(t *testing.T, o Opener, s Sample) {
	const expire = 300 * time.Millisecond
	store, set := oneTimed(t, o, s.spec("news", 7, 1000))
	defer closeStore(t, store)
	keys := Keys(set, 0, 50)
	accepted := timed(func() { AddFor(t, set, keys, expire) })
	again := make([]bool, len(keys)) // accepted a second time, for an hour
	for round := 0; count(again) < len(keys); round++ {
		var looked []bool
		asked := timed(func() {
			if round%2 == 0 {
				looked = has(t, set, keys)
			} else {
				looked = AddFor(t, set, keys, time.Hour)
			}
		})
		fresh, seen := 0, 0 // of those whose first deadline counts
		for i := range keys {
			switch {
			case again[i] && looked[i]:
				t.Fatal("an item that was accepted again is new before its hour is over")
			case again[i]:
			case looked[i]:
				fresh++
			default:
				seen++
			}
			again[i] = again[i] || round%2 == 1 && looked[i]
		}
		if o.Pass == nil {
			if fresh > 0 && asked.to.Sub(accepted.from) < expire-clockSlack {
				t.Fatalf("%d items are new %v after they were accepted, at most", fresh, asked.to.Sub(accepted.from))
			}
			if seen > 0 && asked.from.Sub(accepted.to) > expire+clockSlack {
				t.Fatalf("%d items are duplicates %v after they were accepted, at least", seen, asked.from.Sub(accepted.to))
			}
		} else if want := round*7 >= 300; (fresh > 0) != want || fresh%len(keys) != 0 {
			t.Fatalf("%d of %d items are new after %d ms", fresh, len(keys), round*7)
		}
		o.pass(7 * time.Millisecond)
	}
	o.pass(expire)
	wantCount(t, "new of those accepted again, before their hour is over", Add(t, set, keys), 0)
}

// The call's expire takes precedence over the filter's. What counts is the call that accepted
// the item.
func testExpire(t *testing.T, o Opener, s Sample) {
	const short = 500 * time.Millisecond
	store, set := oneTimed(t, o, expiring(s, "news", 7, short))
	defer closeStore(t, store)
	var a, b []bloom.Hash
	for try := 0; ; try++ {
		a, b = Keys(set, try*20, 10), Keys(set, try*20+10, 10)
		took := timed(func() {
			Add(t, set, a)          // expire of the filter
			AddFor(t, set, b, long) // of the call
			AddFor(t, set, a, long) // changes nothing
			AddFor(t, set, b, time.Millisecond)
		})
		if o.Pass != nil || took.to.Sub(took.from) < short-clockSlack {
			break
		} else if try == 20 {
			t.Fatal("the machine is too slow to tell")
		}
	}
	o.pass(short + 2*clockSlack)
	wantCount(t, "expired of the filter's expire", has(t, set, a), 10)
	wantCount(t, "expired of the call's expire", has(t, set, b), 0)
	none := create(t, store, expiring(s, "none", 8, 0))
	if _, err := none.Add(context.Background(), a, make([]bool, 10)); err == nil {
		t.Error("neither filter nor call has an expire: no error")
	}
	wantCount(t, "new after an error", has(t, none, a), 10)
	AddFor(t, none.(engine.Timed), a, configs.MaxExpire)
	wantCount(t, "new within ten years", has(t, none, a), 0)
}

// A restart keeps items until they expire, and not a moment longer.
func testExpireRestart(t *testing.T, o Opener, s Sample) {
	const short = 1500 * time.Millisecond
	spec := s.spec("news", 7, 1000)
	store, set := oneTimed(t, o, spec)
	for round := range 3 {
		Add(t, set, Keys(set, round*3000, 3000))
		brief := Keys(set, 1_000_000+round*10, 10)
		accepted := timed(func() { AddFor(t, set, brief, short) })
		var found engine.Set
		store, found = reopen(t, o, store, spec)
		set = found.(engine.Timed)
		wantCount(t, fmt.Sprintf("forgotten in round %d", round), has(t, set, Keys(set, 0, 3000*(round+1))), 0)
		var fresh int
		asked := timed(func() { fresh = count(has(t, set, brief)) })
		if fresh > 0 && (o.Pass != nil || asked.to.Sub(accepted.from) < short-clockSlack) {
			t.Errorf("round %d: %d of 10 items are new before they expire", round, fresh)
		}
		o.pass(short + clockSlack)
		wantCount(t, "new after they expired", has(t, set, brief), 10)
	}
	closeStore(t, store)
}
