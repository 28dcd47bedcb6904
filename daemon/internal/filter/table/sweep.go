package table

import (
	"errors"
	"math"
)

// sweepSlots is how many slots one call of Sweep examines, unless a single part has more.
const sweepSlots = 250_000

// Stats is the present contents of a table.
type Stats struct {
	Items uint64 // not expired, as far as Sweep has seen
	Bytes uint64 // taken from the system, plus those of reservations
}

// Memory is Stats().Bytes, at the cost of reading two numbers.
func (t *Table) Memory() uint64 { return uint64(t.bytes.Load() + t.leases.bytes.Load()) }

// Stats counts.
func (t *Table) Stats() Stats {
	s := Stats{Bytes: uint64(t.leases.bytes.Load())}
	for i := range t.parts {
		l, p := &t.lock[i/share], &t.parts[i]
		l.RLock()
		s.Items += uint64(p.used - p.dead)
		s.Bytes += uint64(len(p.mem))
		l.RUnlock()
	}
	return s
}

// Sweep looks in the next parts for keys that have expired at the time now, and frees memory.
// Called ten times a second, it covers a table of up to two million keys in a second, and
// one of a hundred million in half a minute. Parts without possibly expired keys cost nothing.
func (t *Table) Sweep(now int64) error {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	var errs []error
	for n, seen := 0, 0; n < parts && seen < sweepSlots; n++ {
		i := t.swept
		t.swept = (i + 1) % parts
		seen += t.sweepPart(i, t.ticks(now), &errs)
	}
	return errors.Join(errs...)
}

func (t *Table) sweepPart(i int, now uint64, errs *[]error) (seen int) {
	l, p := &t.lock[i/share], &t.parts[i]
	l.RLock()
	due := p.due(now)
	l.RUnlock()
	if !due {
		return 0
	}
	l.Lock()
	defer l.Unlock()
	if !p.due(now) { // it was cleared or restored in between
		return 0
	}
	seen = p.slots
	if err := p.sweep(now); err != nil {
		*errs = append(*errs, err)
	}
	return seen
}

// due reports whether keys may have expired.
func (p *part) due(now uint64) bool { return len(p.mem) > 0 && p.soonest <= now }

// MemoryFor returns how many bytes the table takes at most once n more keys were added, and others
// reserved: keys are spread evenly, and a part takes what it needs in steps.
func (t *Table) MemoryFor(n, reserved int) uint64 {
	bytes := t.leases.bytes.Load()
	if reserved > 0 {
		bytes += reservationBytes + int64(reserved)*(keyBytesTaken+holdBytes)
	}
	bytes += t.bytes.Load()
	if n == 0 {
		return uint64(bytes)
	}
	each := inPart(n)
	all, most := 0, 0 // how much the parts grow
	for l := range t.lock {
		for i := range t.lock[l].fills {
			growth := t.lock[l].fills[i].growthFor(each, t.shape)
			all, most = all+growth, max(most, growth)
		}
	}
	return uint64(bytes) + min(uint64(all), uint64(n)*uint64(most))
}

// inPart returns how many of n keys one part gets at most: five times the spread above the average.
func inPart(n int) int {
	mean := float64(n) / parts
	return min(n, int(mean+5*math.Sqrt(mean))+1)
}
