package history

import (
	"math/rand/v2"
	"testing"
	"time"
)

// search looks for a legal order by trying all orders, straight from the model in the package
// comment: it knows none of the rules that Check applies.
type search struct{ ops []Op }

type state int

const (
	unset state = iota
	unknown
	set
)

// legal reports whether the ops that are not yet done can follow in some order.
func (s *search) legal(done uint, now state) bool {
	left := false
	for i, op := range s.ops {
		left = left || op.Outcome != Unknown && op.Outcome != Refused && done>>i&1 == 0
	}
	if !left {
		return true
	}
	for i, op := range s.ops {
		if done>>i&1 == 1 || op.Outcome == Refused || !s.mayBeNext(done, op) {
			continue
		}
		then, may := now, false
		switch op.Outcome {
		case New:
			then, may = set, now != set
		case Seen, Present:
			may = now != unset
		case Absent:
			may = now != set
		case Unknown:
			then, may = unknown, now == unset
		}
		if may && s.legal(done|1<<i, then) {
			return true
		}
	}
	return false
}

// mayBeNext reports whether no op that is not yet done must come before op.
func (s *search) mayBeNext(done uint, op Op) bool {
	for i, other := range s.ops {
		if done>>i&1 == 0 && other.Outcome != Unknown && other.Outcome != Refused && other.Return < op.Invoke {
			return false
		}
	}
	return true
}

// TestNoRaceRulesAreTheModel compares the rules with the search, on small histories, every second
// one of which is legal or nearly so.
func TestNoRaceRulesAreTheModel(t *testing.T) {
	const histories = 50_000
	legal := 0
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 9))
		h := &History{}
		for range 1 + r.IntN(6) {
			from := time.Duration(r.IntN(12))
			o := Outcome(r.IntN(outcomes))
			if r.IntN(2) == 0 {
				o = Seen // otherwise nearly all of them would be illegal
			}
			h.Calls = append(h.Calls, Call{Invoke: from, Return: from + time.Duration(r.IntN(6)), Items: []uint32{1}, Outcomes: []Outcome{o}})
		}
		s := &search{}
		for i := range h.Calls {
			s.ops = append(s.ops, Op{&h.Calls[i], h.Calls[i].Outcomes[0]})
		}
		want := s.legal(0, unset)
		found := Check(h).Violations
		if got := len(found) == 0; got != want {
			t.Fatalf("seed %d: legal: rules say %v, search says %v: %+v", seed, got, want, h.Calls)
		}
		if want {
			legal++
		}
		for i := range found {
			found[i].mustBeMinimal(t, h)
		}
	}
	if legal < histories/10 || legal > histories*9/10 {
		t.Errorf("%d of %d histories are legal: they show little", legal, histories)
	}
}
