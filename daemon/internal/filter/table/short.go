package table

import "github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"

// What OnChange gets from a table of short keys takes half the room. Two keys that were added or
// removed share an entry of two elements: of each there is Hi and until when it is seen, and the
// time of the call is 0. The second may be missing. Entries about reservations keep their size,
// with their four numbers in another order: Hi of the key, Hi of its value, both Lo. So the first
// byte of the second number tells them apart: it is the tag.

// tagNone is the tag of the second half of an entry that has one key.
const tagNone = 255

// pack gives entries that form, in place.
func pack(entries []bloom.Hash) []bloom.Hash {
	n := 0
	full := func() {
		if n%2 == 1 {
			entries[n] = bloom.Hash{Lo: tagNone << tagShift}
			n++
		}
	}
	for i := 0; i+1 < len(entries); i += 2 {
		key, what := entries[i], entries[i+1]
		first, second := bloom.Hash{Hi: key.Hi, Lo: what.Hi}, bloom.Hash{Hi: key.Lo, Lo: what.Lo}
		if what.Hi>>tagShift == 0 {
			entries[n] = first
			n++
			continue
		}
		full()
		entries[n], entries[n+1] = first, second
		n += 2
	}
	full()
	return entries[:n]
}

// unpack undoes pack.
func unpack(packed []bloom.Hash) (entries []bloom.Hash) {
	for i := 0; i+1 < len(packed); i += 2 {
		first, second := packed[i], packed[i+1]
		if first.Lo>>tagShift != 0 {
			entries = append(entries, bloom.Hash{Hi: first.Hi, Lo: second.Hi}, bloom.Hash{Hi: first.Lo, Lo: second.Lo})
			continue
		}
		entries = append(entries, bloom.Hash{Hi: first.Hi}, bloom.Hash{Hi: first.Lo})
		if second.Lo>>tagShift != tagNone {
			entries = append(entries, bloom.Hash{Hi: second.Hi}, bloom.Hash{Hi: second.Lo})
		}
	}
	return entries
}
