package main

import (
	"encoding/json"
	"fmt"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// kindsInMemory measures the kinds of filters, which share everything but the memory, in process.
func kindsInMemory(s settings) error {
	if err := kindsInProcess(s); err != nil {
		return err
	}
	return sweeps(s)
}

// sample is a filter of one kind.
type sample struct {
	kind    string
	note    string // if there are several samples of a kind
	params  configs.Params
	store   string // "": that of the daemon
	redis   bool   // it can be in Redis
	restart string // how settings name it; "": its start is not measured here
	reserve bool   // its items can be reserved, which is measured, too

	committed bool // each batch is reserved, and then committed
}

// samples returns those of all kinds for items, bloom first, each for that many items.
func samples(items uint64) []sample {
	return []sample{
		{kind: "bloom", params: configs.Bloom{Capacity: items, ErrorRate: errorRate, OnFull: "warn"}, redis: true},
		{kind: "bloom", note: " that can grow", params: configs.Bloom{Capacity: 2 * items, ErrorRate: errorRate, OnFull: "grow"}},
		{kind: "bloom", note: " grown tenfold", params: configs.Bloom{Capacity: items / 10, ErrorRate: errorRate, OnFull: "grow"}},
		{kind: "timing", params: configs.Timing{Expire: 24 * time.Hour}, redis: true, restart: "kind: timing, expire: 24h", reserve: true},
		{kind: "exact", params: configs.Exact{}, redis: true, restart: "kind: exact", reserve: true},
		{kind: "exact", note: " of 64 bits", params: configs.Exact{Digest: configs.ShortDigest}, restart: "kind: exact, digest: 64", reserve: true},
	}
}

func (s sample) name() string { return s.kind + s.note }

func (s sample) spec() engine.Spec {
	return engine.Spec{ID: 1, Name: "uri", Kind: s.kind, Params: s.params}
}

// body returns the body of a PUT that makes the filter.
func (s sample) body() string {
	members := map[string]any{"id": 1, "kind": s.kind}
	if s.store != "" {
		members["store"] = s.store
	}
	for _, m := range s.spec().Members() {
		members[m.Key] = m.Value
	}
	text, err := json.Marshal(members)
	if err != nil {
		panic(err) // they are numbers and texts
	}
	return string(text)
}

// memory returns what such a filter remembers with, and a function that does a test-and-set.
func (s sample) memory(clock timing.Clock) (m kind.Memory, add func(keys []bloom.Hash, fresh []bool) (int, error), err error) {
	k, err := kinds.Of(s.kind)
	if err == nil {
		m, err = k.New(s.spec(), engine.Identity{Seed: 42, Generation: 1, Created: time.Now()}, clock)
	}
	if err != nil {
		return nil, nil, err
	}
	switch m := m.(type) {
	case kind.Expiring:
		add = func(keys []bloom.Hash, fresh []bool) (int, error) { return m.AddFor(keys, time.Hour, fresh) }
	case kind.Keyed:
		add = m.Add
	}
	return m, add, nil
}

// fill adds new items, half of each batch, until there are about live of them, and returns them and a
// function that hashes and adds a batch.
func fill(live uint64, add func(keys []bloom.Hash, fresh []bool) (int, error)) (*items, func(*items)) {
	keys, fresh := make([]bloom.Hash, batch), make([]bool, batch)
	one := func(it *items) {
		for i, text := range it.text {
			keys[i] = bloom.Sum(42, text)
		}
		if _, err := add(keys, fresh); err != nil {
			panic(err) // memory alone, there is no disk
		}
	}
	it := newItems(1 << 50)
	for range live / (batch / 2) {
		it.fill()
		one(it)
	}
	return it, one
}

// kindsInProcess measures a test-and-set of a 66-byte URL, hashing included, half of the
// items duplicates, up to different numbers of live items, and the memory that an item then takes.
func kindsInProcess(s settings) error {
	t := report.Table{{"kind", "items", "a test-and-set", "of bloom", "bytes an item"}}
	for _, live := range []uint64{2_000_000, 20_000_000} {
		var bloomTook float64
		for _, k := range samples(live) {
			m, add, err := k.memory(timing.SystemClock())
			if err != nil {
				return fmt.Errorf("%s: %w", k.name(), err)
			}
			// In the end all are there: what is measured is at most the second half of them.
			batches := max(1, min(measureBatches, int(live)/batch/s.runs))
			it, one := fill(live-uint64(s.runs*batches*batch/2), add)
			took := timed(s, fmt.Sprintf("Kind/kind=%s/items=%d", k.name(), live), batches, it, one)
			n := m.Stats().Items
			grown := false
			if grows, ok := m.(kind.Layered); ok {
				grown = len(grows.Layers()) > 1
			}
			if bound := k.spec().Bound().Items; bound > 0 && !grown {
				n = bound // items below or past it take no more
			}
			bytes := float64(m.Bytes()) / float64(n)
			_ = m.Free()
			if bloomTook == 0 {
				bloomTook = took
			}
			t.Row(k.name(), report.Million(float64(live)), fmt.Sprintf("%.1f ns", took), fmt.Sprintf("%.1f", took/bloomTook), fmt.Sprintf("%.1f", bytes))
		}
	}
	s.out.Table("kinds", "One test-and-set of a 66-byte URL on one core, batches of 1,000, half duplicates", t)
	return nil
}

// sweeps measures how a table whose items have all expired releases its memory.
func sweeps(s settings) error {
	const live = 20_000_000
	t := report.Table{{"expired items", "the sweeps took", "bytes left"}}
	now := time.Duration(0)
	for _, k := range samples(live) {
		m, add, err := k.memory(timing.Clock{Elapsed: func() time.Duration { return now }, Wall: time.Now})
		if err != nil {
			return err
		}
		if e, ok := m.(kind.Expiring); ok {
			fill(live, add)
			now += 2 * time.Hour
			start := time.Now()
			for range table.Parts {
				if err := e.Sweep(); err != nil {
					return err
				}
			}
			t.Row(report.Million(live), report.Milliseconds(time.Since(start)), fmt.Sprint(m.Bytes()))
		}
		_ = m.Free()
	}
	s.out.Table("sweeps", "All items of a filter have expired, in process", t)
	return nil
}

// kindsRestart measures how long a daemon with a filter of 10 million items takes from its
// start to its first answer, after kill -9, and how much memory it then has.
func kindsRestart(s settings) error {
	t := report.Table{{"10 M items", "serves after kill -9", "resident memory"}}
	for _, k := range samples(10_000_000) {
		if k.restart == "" {
			continue
		}
		v, err := startVictim(s, "URIFILTER_FILTERS=[{id: 1, name: uri, "+k.restart+"}]", 10_000_000/(batch/2))
		if err != nil {
			return fmt.Errorf("%s: %w", k.name(), err)
		}
		took, memory, err := v.restart("KindRestart/kind="+k.name(), syscall.SIGKILL, 200)
		if err == nil {
			err = v.srv.stop()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.name(), err)
		}
		t.Row(k.name(), fmt.Sprintf("%.2f s", took.Seconds()), memory)
	}
	s.out.Table("kindsrestart", "From the start to the first answer; the files are in the page cache", t)
	return nil
}
