package timing

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// part holds the keys that have one first byte, in an open-addressing table whose slots
// are in the order of the keys. A key's home is the slot at its share of all keys; it
// stands there or after it, with no empty slot between, so that a search goes from the
// home on and ends at an empty slot or a larger key (Amble and Knuth, Ordered hash
// tables, 1974). A larger or smaller table is then one pass over the slots, and nothing
// is ever removed from a table but by making another.
//
// A slot has 20 bytes, integers little-endian; the first byte of Hi, which is the same
// for all keys of the part, is left out:
//
//	 0   8  the other 56 bits of Hi, shifted left by 8; in the lowest byte bits 32 to 39
//	        of the deadline
//	 8   8  Lo
//	16   4  bits 0 to 31 of the deadline; a slot whose deadline is 0 is empty
type part struct {
	mem     memory
	table   []slot // is mem
	homes   uint64 // slots that can be homes; overflow more follow, the last always empty
	used    int
	dead    int    // of those, expired when last counted
	soonest uint64 // no deadline is earlier

	total *atomic.Int64 // bytes of the tables of all parts
}

type slot [slotBytes]byte

const (
	slotBytes   = 20
	pageBytes   = 4096
	overflow    = 24 // slots behind the last home, for keys that are pushed on
	maxDeadline = 1<<40 - 1

	// A table is made for a load of 68 % and remade at 85 %, so that it has room for a
	// quarter more keys; on the average of both an entry takes 26 bytes.
	freshLoad, fullLoad = 68, 85
)

// split takes a key apart as the slots have it.
func split(key bloom.Hash) (hi, lo uint64) { return key.Hi << 8, key.Lo }

func (p *part) home(hi uint64) int {
	h, _ := bits.Mul64(hi, p.homes)
	return int(h)
}

func (s *slot) read() (hi, lo, deadline uint64) {
	hi = binary.LittleEndian.Uint64(s[:8])
	return hi &^ 0xff, binary.LittleEndian.Uint64(s[8:16]), hi&0xff<<32 | uint64(binary.LittleEndian.Uint32(s[16:]))
}

// deadline is what read says of it.
func (s *slot) deadline() uint64 {
	return uint64(s[0])<<32 | uint64(binary.LittleEndian.Uint32(s[16:]))
}

func (p *part) put(at int, hi, lo, deadline uint64) {
	s := &p.table[at]
	binary.LittleEndian.PutUint64(s[:8], hi|deadline>>32)
	binary.LittleEndian.PutUint64(s[8:16], lo)
	binary.LittleEndian.PutUint32(s[16:], uint32(deadline))
	p.soonest = min(p.soonest, deadline)
}

// touch reads a byte of a key's home, so that many of them come from memory at once.
func (p *part) touch(hi uint64) byte {
	if len(p.table) == 0 {
		return 0
	}
	return p.table[p.home(hi)][0]
}

// find looks for a key: its slot and its deadline, or the slot where it belongs and 0.
func (p *part) find(hi, lo uint64) (at int, deadline uint64) {
	if len(p.table) == 0 {
		return 0, 0
	}
	for at = p.home(hi); ; at++ {
		h, l, d := p.table[at].read()
		switch {
		case d != 0 && (h < hi || h == hi && l < lo):
		case d != 0 && h == hi && l == lo:
			return at, d
		default:
			return at, 0
		}
	}
}

// set gives a key a deadline; at and was are what find has just found of it. now is only
// for making room: keys that have expired by then are left out.
func (p *part) set(at int, was, hi, lo, deadline, now uint64) error {
	if was != 0 {
		if was <= now && p.dead > 0 {
			p.dead--
		}
		p.put(at, hi, lo, deadline)
		return nil
	}
	for extra := 0; (p.used+1)*100 > int(p.homes)*fullLoad || !p.insert(at, hi, lo, deadline); extra += pageBytes {
		if err := p.remake(now, 1, extra); err != nil {
			return err
		}
		at, _ = p.find(hi, lo)
	}
	return nil
}

// insert moves what is in the way on to the next empty slot. It is false where that
// would be the last slot.
func (p *part) insert(at int, hi, lo, deadline uint64) bool {
	end := at
	for p.table[end].deadline() != 0 {
		end++
	}
	if end >= len(p.table)-1 {
		return false
	}
	copy(p.table[at+1:end+1], p.table[at:end])
	p.put(at, hi, lo, deadline)
	p.used++
	return true
}

// sizeFor is the size of a table for n keys, in whole pages.
func sizeFor(n int) int {
	want := (n*100/freshLoad + 1 + overflow) * slotBytes
	return (want + pageBytes - 1) / pageBytes * pageBytes
}

// remake makes the table anew for what has not expired and more keys beside, with at
// least extra bytes behind the overflow.
func (p *part) remake(now uint64, more, extra int) error {
	live := p.used
	if p.soonest <= now || p.dead > 0 {
		live = 0
		for i := range p.table {
			if p.table[i].deadline() > now {
				live++
			}
		}
	}
	size := sizeFor(live + more)
	homes := uint64(size/slotBytes - overflow)
	for size += extra; ; size += pageBytes {
		next := part{homes: homes, soonest: maxDeadline, total: p.total}
		var err error
		if next.mem, err = allocate(size); err != nil {
			return fmt.Errorf("table of %d bytes: %w", size, err)
		}
		next.table = unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(next.mem))), size/slotBytes)
		if p.copyTo(&next, now) {
			old := p.mem
			*p = next
			p.total.Add(int64(len(p.mem) - len(old)))
			return old.free()
		}
		if err := next.mem.free(); err != nil { // too many keys in the last homes
			return err
		}
	}
}

// copyTo copies what has not expired, in order; false where it does not fit.
func (p *part) copyTo(next *part, now uint64) bool {
	at := 0
	for i := range p.table {
		hi, lo, d := p.table[i].read()
		if d <= now {
			continue
		}
		if at = max(at, next.home(hi)); at >= len(next.table)-1 {
			return false
		}
		next.put(at, hi, lo, d)
		next.used++
		at++
	}
	return true
}

// sweep counts what has expired, and makes the table smaller where that gives back a
// quarter of it or more.
func (p *part) sweep(now uint64) error {
	p.dead, p.soonest = 0, maxDeadline
	for i := range p.table {
		switch d := p.table[i].deadline(); {
		case d == 0:
		case d <= now:
			p.dead++
		default:
			p.soonest = min(p.soonest, d)
		}
	}
	switch live := p.used - p.dead; {
	case live == 0:
		return p.drop()
	case sizeFor(live) <= len(p.mem)/4*3:
		return p.remake(now, 0, 0)
	}
	return nil
}

// drop forgets everything.
func (p *part) drop() error {
	old := p.mem
	*p = part{soonest: maxDeadline, total: p.total}
	p.total.Add(-int64(len(old)))
	return old.free()
}
