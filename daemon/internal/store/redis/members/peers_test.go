package members

import (
	"slices"
	"testing"
	"time"
)

// A daemon counts as alive if its heartbeat changes, by the clock of the observer. The
// number in it may be anything.
func TestPeers(t *testing.T) {
	start := time.Now()
	for name, test := range map[string]struct {
		// beats are what is read, a second apart; "" means that Redis could not be read.
		beats []string
		want  []bool // Alive after each
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
			p := newPeers("me", PeerDead)
			for i, beat := range test.beats {
				members := map[string]string{"me": "1", "other": beat}
				if beat == "-" {
					delete(members, "other")
				}
				if beat != "" {
					p.note(members, start.Add(time.Duration(i)*PollEvery))
				}
				if got := slices.Contains(p.Alive(), "other"); got != test.want[i] {
					t.Fatalf("after %d looks: Alive %v, want %v", i+1, got, test.want[i])
				}
			}
		})
	}
	// A daemon that has left stays so, even if an older file of Redis brings back its heartbeat.
	back := newPeers("me", PeerDead)
	for i, beat := range []string{"1", "left 2", "1", "1"} {
		back.note(map[string]string{"other": beat}, start.Add(time.Duration(i)*PollEvery))
	}
	own := newPeers("me", PeerDead) // the same for the daemon's own earlier life
	own.markDead([]string{"other"})
	own.note(map[string]string{"other": "1"}, start)
	for _, p := range []*peers{back, own} {
		if Alive := p.Alive(); len(Alive) > 0 {
			t.Errorf("%q are Alive, who have left or are dead", Alive)
		}
	}
	if ids := own.unannounced(map[string]string{"other": "1", "another": "1"}); !slices.Equal(ids, []string{"other"}) {
		t.Errorf("%q are dead and not known to be, want other", ids)
	}
	// Lost distinguishes silent daemons that were waited for from killed ones. It does not list one that has
	// signed off.
	judge := newPeers("me", PeerDead)
	for i, beats := range []map[string]string{{"silent": "1", "killed": "1", "left": "1"}, {"silent": "1", "killed": killed, "left": "left 2"}} {
		judge.note(beats, start.Add(time.Duration(i)*PollEvery))
	}
	waited := map[string]bool{"silent": true, "killed": true, "left": true}
	silent, dead := judge.Lost(waited)
	for i := range 2 * int(PeerDead/PollEvery) {
		judge.note(map[string]string{"silent": "1", "killed": killed, "left": "left 2"}, start.Add(time.Duration(i+2)*PollEvery))
	}
	later, none := judge.Lost(waited)
	if len(silent) > 0 || !slices.Equal(dead, []string{"killed"}) || !slices.Equal(later, []string{"silent"}) || len(none) > 0 {
		t.Errorf("lost are %q and %q, later %q and %q", silent, dead, later, none)
	}
	p := newPeers("me", PeerDead)
	looks := 0
	for ; p.note(map[string]string{"dead": "1"}, start.Add(time.Duration(looks)*PollEvery)) == nil; looks++ {
	}
	if took := time.Duration(looks) * PollEvery; took <= forgetPeers || took > forgetPeers+2*PollEvery {
		t.Errorf("the entry of a dead daemon is removed after %v", took)
	}
}

func TestHeartbeatsGrow(t *testing.T) {
	p := newPeers("me", PeerDead)
	at := time.Now()
	p.Wall = func() time.Time { return at }
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
