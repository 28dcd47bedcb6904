package bitmap

import (
	"math/rand/v2"
	"testing"
)

// In whichever order batches are sent, set their bits and are answered, and Redis counts and that
// arrives: no bit counts twice, or a filter that rejects what does not fit would refuse what does.
// And of what a daemon was told none is taken back, or the filter would take more than fits.
func TestCountsInAnyOrder(t *testing.T) {
	type batch struct{ number, bits uint64 }
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := counts{of: make([]count, 4)}
		var bits, told uint64      // in Redis, and of them those that callers were told of
		var sent, answered []batch // before and after Redis has set their bits
		type question struct{ before, bits uint64 }
		var asked *question // a count that Redis has made, on its way
		alone := seed%2 == 0
		step := func(what int) {
			switch {
			case what == 0:
				sent = append(sent, batch{number: c.send(), bits: r.Uint64N(9)})
			case what == 1 && len(sent) > 0:
				bits += sent[0].bits
				sent, answered = sent[1:], append(answered, sent[0])
			case what == 2 && len(answered) > 0:
				i := r.IntN(len(answered))
				b := answered[i]
				answered = append(answered[:i:i], answered[i+1:]...)
				c.add(3, b.bits, b.number)
				told += b.bits
				c.answer()
			case what == 3 && asked == nil:
				asked = &question{before: c.quiet()}
			case what == 4 && asked != nil:
				asked.bits = bits
			case what == 5 && asked != nil:
				c.set(3, asked.bits, asked.before)
				asked = nil
			case what == 6 && !alone:
				bits += r.Uint64N(5)
			}
			if got := c.sum(); got > bits || got < told {
				t.Fatalf("seed %d: %d bits, want %d to %d", seed, got, told, bits)
			}
		}
		for range 100 {
			what := r.IntN(7)
			if what == 5 && asked != nil {
				step(4) // at the latest now
			}
			step(what)
		}
		for len(sent) > 0 {
			step(1)
		}
		for len(answered) > 0 {
			step(2)
		}
		if alone && c.sum() != bits {
			t.Fatalf("seed %d: %d bits after all batches, want %d", seed, c.sum(), bits)
		}
		asked = &question{c.quiet(), bits}
		if step(5); c.sum() != bits {
			t.Fatalf("seed %d: %d bits when all were counted, want %d", seed, c.sum(), bits)
		}
	}
}
