package redisstore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/storetest"
)

// Whether a daemon lives is judged by whether its heartbeat changes, by the clock of who
// looks; the number in it may be anything.
func TestPeers(t *testing.T) {
	start := time.Now()
	for name, test := range map[string]struct {
		// beats are what is read, a second apart; "" is that Redis could not be read.
		beats []string
		want  []bool // alive after each
	}{
		"its clock is years behind":     {[]string{"5", "6", "7"}, []bool{true, true, true}},
		"its clock is set back":         {[]string{"1795000000000", "1000", "1001"}, []bool{true, true, true}},
		"it left":                       {[]string{"1", "2", "left 3", "left 3"}, []bool{true, true, false, false}},
		"it left before":                {[]string{"left 3"}, []bool{false}},
		"it was killed long ago":        {slices.Repeat([]string{"1"}, 12), append(slices.Repeat([]bool{true}, 10), false, false)},
		"it is slow":                    {append(slices.Repeat([]string{"1"}, 9), "2", "2"), slices.Repeat([]bool{true}, 11)},
		"it was killed":                 {append([]string{"1"}, slices.Repeat([]string{"2"}, 12)...), append(slices.Repeat([]bool{true}, 11), false, false)},
		"redis is away for long":        {append(append([]string{"1", "2"}, slices.Repeat([]string{""}, 100)...), "2", "2", "3"), slices.Repeat([]bool{true}, 105)},
		"it comes back after a stop":    {append(slices.Repeat([]string{"1"}, 12), "2"), append(append(slices.Repeat([]bool{true}, 10), false, false), true)},
		"its entry is flushed":          {[]string{"1", "-", "-", "2"}, []bool{true, true, true, true}},
		"its entry is flushed for ever": {append([]string{"1"}, slices.Repeat([]string{"-"}, 11)...), append(slices.Repeat([]bool{true}, 10), false, false)},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeers("me")
			for i, beat := range test.beats {
				members := map[string]string{"me": "1", "other": beat}
				if beat == "-" {
					delete(members, "other")
				}
				if beat != "" {
					p.note(members, start.Add(time.Duration(i)*pollEvery))
				}
				if got := slices.Contains(p.alive(), "other"); got != test.want[i] {
					t.Fatalf("after %d looks: alive %v, want %v", i+1, got, test.want[i])
				}
			}
		})
	}
	// Whoever has left stays so, should an older file of Redis bring back its heartbeat.
	back := newPeers("me")
	for i, beat := range []string{"1", "left 2", "1", "1"} {
		back.note(map[string]string{"other": beat}, start.Add(time.Duration(i)*pollEvery))
	}
	own := newPeers("me") // the same for the daemon's own earlier life
	own.markDead([]string{"other"})
	own.note(map[string]string{"other": "1"}, start)
	for _, p := range []*peers{back, own} {
		if alive := p.alive(); len(alive) > 0 {
			t.Errorf("%q are alive, who have left or are dead", alive)
		}
	}
	if ids := own.unannounced(map[string]string{"other": "1", "another": "1"}); !slices.Equal(ids, []string{"other"}) {
		t.Errorf("%q are dead and not known to be, want other", ids)
	}
	p := newPeers("me")
	looks := 0
	for ; p.note(map[string]string{"dead": "1"}, start.Add(time.Duration(looks)*pollEvery)) == nil; looks++ {
	}
	if took := time.Duration(looks) * pollEvery; took <= forgetPeers || took > forgetPeers+2*pollEvery {
		t.Errorf("the entry of a dead daemon is removed after %v", took)
	}
}

func TestHeartbeatsGrow(t *testing.T) {
	p := newPeers("me")
	at := time.Now()
	p.wall = func() time.Time { return at }
	last := ""
	for _, step := range []time.Duration{0, time.Second, -24 * time.Hour, 0, time.Second, 48 * time.Hour, -time.Millisecond} {
		at = at.Add(step)
		if beat := p.heartbeat(); len(beat) < len(last) || beat <= last {
			t.Fatalf("%s follows %s", beat, last)
		} else {
			last = beat
		}
	}
}

// Daemons whose clocks differ by hours wait for each other, also when a clock is set while
// they run; a daemon that was killed is not waited for longer than it may be silent.
func TestResyncWaitsWhateverClocksSay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// Written by daemons that were killed: one long ago, one with a clock that is ahead.
	server.CLI("hset", membersKey, "killed:1:a", "1700000000000", "killed:2:b", "4000000000000")
	open := func(ahead time.Duration) (*Store, *set) {
		store, err := Open(context.Background(), config(server.Addr))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		store.peers.wall = func() time.Time { return time.Now().Add(ahead) }
		sets, err := store.Load(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if found := sets[uri]; found != nil {
			return store, found.(*set)
		}
		made, err := store.Create(context.Background(), uri, storetest.Identity())
		if err != nil {
			t.Fatal(err)
		}
		return store, made.(*set)
	}
	storeA, a := open(0)
	storeB, b := open(-3 * time.Hour)
	storeC, c := open(5 * time.Hour)
	add(t, a, 0, 1000)
	add(t, b, 1000, 1000)
	add(t, c, 2000, 1000)
	for _, hangs := range []*Store{storeB, storeC} {
		for deadline := time.Now().Add(20 * time.Second); !slices.Contains(storeA.peers.alive(), hangs.peers.self); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("a daemon is not seen by its heartbeat")
			}
		}
		inSync(t, server, storeA, storeB, storeC)
		// One of them stands still in the middle of a batch while Redis is flushed.
		epoch := storeA.sync.epoch.Load()
		hangs.flight.RLock()
		server.CLI("flushall")
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			err := storeA.Ready(context.Background())
			if err != nil && strings.Contains(err.Error(), "waiting for other daemons") && strings.Contains(err.Error(), hangs.peers.self) {
				break
			}
			if err == nil && storeA.sync.epoch.Load() > epoch || time.Now().After(deadline) {
				hangs.flight.RUnlock()
				t.Fatalf("nobody waits for a daemon whose clock is wrong: %v", err)
			}
			_, _ = a.Add(context.Background(), storetest.Keys(a, 5000, 100), make([]bool, 100)) // finds the loss
		}
		hangs.flight.RUnlock()
		waitReady(t, storeA, storeB, storeC)
		for _, s := range []*set{a, b, c} {
			if n := add(t, s, 0, 3000); n != 0 {
				t.Errorf("%d acknowledged items are new again", n)
			}
		}
	}
}

// inSync waits until no daemon has a resync before it, or behind it that it does not know of.
func inSync(t testing.TB, server *redistest.Server, stores ...*Store) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		now := strings.TrimSpace(server.CLI("get", incarnationKey))
		if !slices.ContainsFunc(stores, func(s *Store) bool {
			_, err := s.sync.check()
			return err != nil || !s.sync.isCurrent(now)
		}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("not in sync")
		}
	}
}
