package table

import (
	"encoding/binary"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// A slot has 15 bytes for a key, and 5 more in a table with deadlines; integers
// little-endian. The first byte of Hi, which is the same for all keys of a part, is omitted:
//
//	 0   8  Lo
//	 8   7  the other 56 bits of Hi
//	15   5  the deadline
//
// In a table of short keys, a slot has the 7 bytes of Hi alone.
//
// An empty slot is zero. The key that would also be zero is stored as the next one, whose
// last bit is 1: in each part two of the 2^120 keys, or 2^56, cannot be told apart.
const (
	shortBytes    = 7
	keyBytes      = 15
	deadlineBytes = 5
	maxDeadline   = 1<<40 - 1

	// kept is the deadline of all keys in a table without deadlines, whose time
	// stands still at 1.
	kept = 2
)

// split returns a key in the form of slots: Hi without its first byte, shifted left by 8.
func (s *shape) split(key bloom.Hash) (hi, lo uint64) {
	hi, lo = key.Hi<<8, key.Lo&s.lo
	if hi|lo == 0 {
		return 1 << 8 &^ s.lo, 1 & s.lo
	}
	return hi, lo
}

// slotsIn returns how many slots fit. The byte after a short one is read with it.
func (s *shape) slotsIn(size int) int { return (size - 1) / s.width }

// key returns the key of a slot; 0, 0 if it is empty.
func (p *part) key(at int) (hi, lo uint64) {
	at *= p.width
	if p.width == shortBytes {
		return binary.LittleEndian.Uint64(p.mem[at:]) << 8, 0
	}
	s := p.mem[at : at+keyBytes : at+keyBytes]
	return binary.LittleEndian.Uint64(s[7:]) &^ 0xff, binary.LittleEndian.Uint64(s)
}

// deadline returns the deadline of a slot that is not empty.
func (p *part) deadline(at int) uint64 {
	if p.width <= keyBytes {
		return kept
	}
	at *= p.width
	return binary.LittleEndian.Uint64(p.mem[at+keyBytes-3:]) >> 24
}

// clearSlot makes a slot empty.
func (p *part) clearSlot(at int) {
	s := p.mem[at*p.width:]
	if p.width == shortBytes {
		s[shortBytes-1] = 0
		binary.LittleEndian.PutUint32(s, 0)
		binary.LittleEndian.PutUint16(s[4:], 0)
		return
	}
	binary.LittleEndian.PutUint64(s, 0)
	binary.LittleEndian.PutUint64(s[p.width-8:], 0)
	binary.LittleEndian.PutUint32(s[8:], 0)
}

// fillSlot fills a slot.
func (p *part) fillSlot(at int, hi, lo, deadline uint64) {
	if p.width == shortBytes {
		s := p.mem[at*shortBytes:]
		binary.LittleEndian.PutUint64(s, binary.LittleEndian.Uint64(s)&^(1<<56-1)|hi>>8)
		p.soonest = min(p.soonest, deadline)
		return
	}
	s := p.mem[at*p.width:][:p.width]
	binary.LittleEndian.PutUint64(s[7:], hi) // its lowest byte is overwritten
	binary.LittleEndian.PutUint64(s, lo)
	if p.width > keyBytes {
		binary.LittleEndian.PutUint32(s[keyBytes:], uint32(deadline))
		s[keyBytes+4] = byte(deadline >> 32)
	}
	p.soonest = min(p.soonest, deadline)
}
