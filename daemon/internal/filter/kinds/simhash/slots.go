package simhash

import (
	"encoding/binary"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/simhash"
)

// In the journal a document is several slots of 16 bytes, whose last byte says what the slot is
// (integers little-endian):
//
//	offset  size  first slot
//	     0     8  fingerprint
//	     8     4  CRC-32C of the fingerprint and the id
//	    12     2  length of the id, n
//	    14     1  zero
//	    15     1  1
//
//	offset  size  following slot i, from 0, of (n + 14) / 15
//	     0    15  bytes of the id from 15 i on; zeroes after its end
//	    15     1  128 + i
//
// A crash may cut off the last slots of an unacknowledged document, and damage may remove any of
// them: a first slot that its own slots do not follow, or whose checksum is wrong, is no
// document.
const (
	headSlot  = 1
	restSlot  = 128
	restBytes = 15
)

// slotsOf is how many slots a document with an id of n bytes takes.
func slotsOf(n int) int { return 1 + (n+restBytes-1)/restBytes }

// documentSum is the checksum of a document.
func documentSum(d simhash.Document) uint32 {
	return bloom.Checksum(append(binary.LittleEndian.AppendUint64(nil, d.Fingerprint), d.ID...))
}

func appendSlots(dst []bloom.Hash, d simhash.Document) []bloom.Hash {
	dst = append(dst, bloom.Hash{Hi: d.Fingerprint, Lo: uint64(documentSum(d)) | uint64(len(d.ID))<<32 | headSlot<<56})
	for i, rest := 0, d.ID; len(rest) > 0; i++ {
		var b [16]byte
		n := copy(b[:restBytes], rest)
		b[restBytes] = byte(restSlot + i)
		dst = append(dst, bloom.Hash{Hi: binary.LittleEndian.Uint64(b[:]), Lo: binary.LittleEndian.Uint64(b[8:])})
		rest = rest[n:]
	}
	return dst
}

// assembly puts documents together from slots.
type assembly struct {
	doc  simhash.Document // its id so far
	size int              // of the complete id; 0: no document has begun
	sum  uint32
	next int // slot
}

// add takes a slot, and returns a document if it is its last slot.
func (a *assembly) add(s bloom.Hash) (d simhash.Document, whole bool) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], s.Hi)
	binary.LittleEndian.PutUint64(b[8:], s.Lo)
	switch tag := int(b[restBytes]); {
	case tag == headSlot:
		*a = assembly{
			doc: simhash.Document{ID: a.doc.ID[:0], Fingerprint: s.Hi}, sum: uint32(s.Lo), size: int(binary.LittleEndian.Uint16(b[12:])),
		}
		if a.size > simhash.MaxID {
			a.size = 0
		}
		return d, false
	case a.size == 0 || tag != restSlot+a.next:
		a.size = 0
		return d, false
	}
	a.next++
	a.doc.ID = append(a.doc.ID, b[:min(restBytes, a.size-len(a.doc.ID))]...)
	if len(a.doc.ID) < a.size {
		return d, false
	}
	a.size = 0
	return a.doc, documentSum(a.doc) == a.sum
}
