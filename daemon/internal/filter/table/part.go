package table

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
)

// part holds the keys with the same first byte, in an open-addressing table whose slots
// are in the order of the keys. A key's home is the slot at its share of all keys. The
// key is there or after it, with no empty slot between, so a search starts at the home
// and ends at an empty slot or a larger key (Amble and Knuth, Ordered hash tables, 1974).
// Making a table larger or smaller is then one pass over the slots. A removed key leaves
// no tombstone: displaced keys behind it move back by one.
type part struct {
	shape
	mem     mapped.Memory
	slots   int    // that mem has room for
	homes   uint64 // of them, those that can be homes; overflow more follow, the last always empty
	used    int
	dead    int    // of those, expired at the last count
	soonest uint64 // no deadline is earlier

	total *atomic.Int64 // bytes of the tables of all parts
}

// shape is common to the parts of one table.
type shape struct {
	width int    // bytes of a slot
	lo    uint64 // the bits of Lo that are kept: all or none
	// The percentage of full slots when a part is made, and when it is rebuilt.
	freshLoad, fullLoad int
}

var (
	// Room for a quarter more keys; at the average of both loads a key takes 26 bytes.
	withDeadlines = shape{keyBytes + deadlineBytes, math.MaxUint64, 68, 85}
	// Room for an eighth more; a key takes 17 to 19 bytes.
	withoutDeadlines = shape{keyBytes, math.MaxUint64, 80, 90}
	// Likewise; a key takes 8 to 9 bytes.
	short = shape{shortBytes, 0, 80, 90}
)

const (
	pageBytes = 4096
	overflow  = 24 // slots after the last home, for displaced keys
)

func (p *part) home(hi uint64) int {
	h, _ := bits.Mul64(hi, p.homes)
	return int(h)
}

// address returns where a key's home is, for a hint to the processor; 0 if there is none.
func (p *part) address(hi uint64) uintptr {
	if p.slots == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&p.mem[p.home(hi)*p.width]))
}

// find returns a key's slot and deadline, or the slot where it belongs and 0.
func (p *part) find(hi, lo uint64) (at int, deadline uint64) {
	if p.slots == 0 {
		return 0, 0
	}
	at = p.home(hi)
	if p.width == shortBytes {
		for i := at * shortBytes; ; i += shortBytes {
			switch h := binary.LittleEndian.Uint64(p.mem[i:]) << 8; {
			case h == hi:
				return at, kept
			case h-1 >= hi: // larger, or empty
				return at, 0
			}
			at++
		}
	}
	for ; ; at++ {
		h, l := p.key(at)
		switch {
		case h < hi && h != 0: // most keys
		case h == hi && l == lo:
			return at, p.deadline(at)
		case h > hi || h == hi && l > lo || h|l == 0:
			return at, 0
		}
	}
}

// empty returns the first empty slot from one on.
func (p *part) empty(at int) int {
	wide := p.width > shortBytes
	for i := at * p.width; ; i += p.width {
		// Lo of a key is zero as rarely as can be.
		first := binary.LittleEndian.Uint64(p.mem[i:])
		if wide && first == 0 && binary.LittleEndian.Uint64(p.mem[i+7:])&^0xff == 0 || !wide && first<<8 == 0 {
			return at
		}
		at++
	}
}

// set gives a key a deadline; at and was are the results of find for it. now is only for
// making room: keys that have expired by then are dropped.
func (p *part) set(at int, was, hi, lo, deadline, now uint64) error {
	if was != 0 {
		if was <= now && p.dead > 0 {
			p.dead--
		}
		p.fillSlot(at, hi, lo, deadline)
		return nil
	}
	for extra := 0; (p.used+1)*100 > int(p.homes)*p.fullLoad || !p.insert(at, hi, lo, deadline); extra += pageBytes {
		if err := p.remake(now, 1, extra); err != nil {
			return err
		}
		at, _ = p.find(hi, lo)
	}
	return nil
}

// insert shifts the slots from here to the next empty one. It returns false if that would be
// the last slot.
func (p *part) insert(at int, hi, lo, deadline uint64) bool {
	end := p.empty(at)
	if end >= p.slots-1 {
		return false
	}
	copy(p.mem[(at+1)*p.width:(end+1)*p.width], p.mem[at*p.width:end*p.width])
	p.fillSlot(at, hi, lo, deadline)
	p.used++
	return true
}

// remove removes the key of a slot, whose deadline is was.
func (p *part) remove(at int, was, now uint64) {
	end := at + 1
	for {
		if h, l := p.key(end); h|l == 0 || p.home(h) == end {
			break
		}
		end++
	}
	copy(p.mem[at*p.width:], p.mem[(at+1)*p.width:end*p.width])
	clear(p.mem[(end-1)*p.width : end*p.width])
	p.used--
	if was <= now && p.dead > 0 {
		p.dead--
	}
}

// sizeFor returns the size of a table for n keys, in whole pages.
func (s shape) sizeFor(n int) int {
	want := (n*100/s.freshLoad+1+overflow)*s.width + 1
	return (want + pageBytes - 1) / pageBytes * pageBytes
}

// fill is how full a part is, for those who do not hold its lock.
type fill struct{ used, homes, bytes atomic.Int64 }

func (f *fill) set(p *part) {
	tell(&f.used, int64(p.used))
	tell(&f.homes, int64(p.homes))
	tell(&f.bytes, int64(len(p.mem)))
}

// tell stores what has changed: a store takes the cache line from those who read.
func tell(to *atomic.Int64, now int64) {
	if to.Load() != now {
		to.Store(now)
	}
}

// growthFor returns how many bytes the part grows when it gets n more keys.
func (f *fill) growthFor(n int, s shape) int {
	used := int(f.used.Load()) + n
	if used*100 <= int(f.homes.Load())*s.fullLoad {
		return 0
	}
	return max(0, s.sizeFor(used)-int(f.bytes.Load()))
}

// fresh returns a part like p without keys.
func (p *part) fresh() part {
	return part{shape: p.shape, soonest: maxDeadline, total: p.total}
}

// remake rebuilds the table for the unexpired keys plus more keys, with at least extra
// bytes behind the overflow.
func (p *part) remake(now uint64, more, extra int) error {
	live := p.used
	if p.soonest <= now || p.dead > 0 {
		live = 0
		for at := range p.slots {
			if h, l := p.key(at); h|l != 0 && p.deadline(at) > now {
				live++
			}
		}
	}
	size := p.sizeFor(live + more)
	homes := uint64(p.slotsIn(size) - overflow)
	for size += extra; ; size += pageBytes {
		if more := int(homes) - int(p.homes); p.used > 0 && more >= 0 && p.slotsIn(size)-p.slots >= more {
			return p.spread(size, homes, now)
		}
		next := p.fresh()
		next.homes = homes
		var err error
		if next.mem, err = mapped.Allocate(size); err != nil {
			return fmt.Errorf("table of %d bytes: %w", size, err)
		}
		next.slots = p.slotsIn(size)
		if p.copyTo(&next, now) {
			old := p.mem
			*p = next
			p.total.Add(int64(len(p.mem) - len(old)))
			return old.Free()
		}
		if err := next.mem.Free(); err != nil { // too many keys in the last homes
			return err
		}
	}
}

// spread makes the table larger in its place. First all keys go to its end, and then each, in order,
// to its home or after it. That is never behind where it stands: no home moves by more than there
// are homes more, and the table has as many slots more.
func (p *part) spread(size int, homes, now uint64) error {
	mem, err := p.mem.Extend(size)
	if err != nil {
		return fmt.Errorf("table of %d bytes: %w", size, err)
	}
	p.total.Add(int64(len(mem) - len(p.mem)))
	shift := p.slotsIn(size) - p.slots
	copy(mem[shift*p.width:], mem[:p.slots*p.width])
	clear(mem[:min(shift, p.slots)*p.width])
	p.mem, p.slots, p.homes = mem, p.slots+shift, homes
	p.used, p.dead, p.soonest = 0, 0, maxDeadline
	at := 0
	for i := shift; i < p.slots; i++ {
		hi, lo := p.key(i)
		if hi|lo == 0 {
			continue
		}
		d := p.deadline(i)
		p.clearSlot(i)
		if d > now {
			at = max(at, p.home(hi))
			p.fillSlot(at, hi, lo, d)
			p.used++
			at++
		}
	}
	return nil
}

// copyTo copies the unexpired keys, in order; false if they do not fit.
func (p *part) copyTo(next *part, now uint64) bool {
	at := 0
	for i := range p.slots {
		hi, lo := p.key(i)
		if hi|lo == 0 {
			continue
		}
		d := p.deadline(i)
		if d <= now {
			continue
		}
		if at = max(at, next.home(hi)); at >= next.slots-1 {
			return false
		}
		next.fillSlot(at, hi, lo, d)
		next.used++
		at++
	}
	return true
}

// sweep counts the expired keys, and shrinks the table if that frees a quarter of it or
// more.
func (p *part) sweep(now uint64) error {
	p.dead, p.soonest = 0, maxDeadline
	for at := range p.slots {
		if h, l := p.key(at); h|l == 0 {
			continue
		}
		switch d := p.deadline(at); {
		case d <= now:
			p.dead++
		default:
			p.soonest = min(p.soonest, d)
		}
	}
	return p.shrink(now, p.used-p.dead, len(p.mem)/4*3)
}

// shrink rebuilds the table for its live keys, if it then has most bytes at most.
func (p *part) shrink(now uint64, live, limit int) error {
	switch {
	case live == 0:
		return p.drop()
	case p.sizeFor(live) <= limit:
		return p.remake(now, 0, 0)
	}
	return nil
}

// drop forgets everything.
func (p *part) drop() error {
	old := p.mem
	*p = p.fresh()
	p.total.Add(-int64(len(old)))
	return old.Free()
}
