package simhash

import (
	"bytes"
	"math/bits"
	"slices"
	"sort"
)

// maxHeld is how many fingerprints a search collects before it reads their ids.
const maxHeld = 1 << 10

// search looks for the documents near a given one, the nearest first. What it collects is
// bounded: now and then it reads the ids of the nearest fingerprints, and if they are more than
// it must return, it looks for no farther ones from then on.
type search struct {
	index  *Index
	want   uint64
	own    []byte // an id that is not looked for
	limit  int    // one more is found, to know that there are more
	before uint32 // only documents with lower addresses are looked for
	refs   uint32 // only fingerprints with lower numbers are looked for

	distance int    // fingerprints farther than that are not looked for,
	last     uint32 // nor those that are so far and have a higher number

	path  [][]uint64                // per level on the way, the masks of the tables already read
	found [MaxDistance + 1][]uint32 // numbers of fingerprints, by distance
	held  int                       // how many are in found

	same   uint32 // the number of the fingerprint itself, or none
	told   []told // the nearest, each id once; equally far ones in the order in which they came
	oldest uint32 // the lowest address among the documents whose ids were read
	unread bool   // there may be others that are near
}

// told is a document that is near.
type told struct {
	at       uint32
	distance int
}

// newSearch returns a search among the documents with addresses below before; none: among all.
// A search that is not among all only tells whether there is a near one.
func newSearch(x *Index, q Query, before uint32) *search {
	s := &search{index: x, want: q.Fingerprint, own: q.ID, limit: q.Limit, before: before, refs: none,
		distance: min(q.Distance, x.distance), last: none, same: none, oldest: none}
	if before != none {
		s.limit = 0
		// Both numbers and addresses grow.
		s.refs = uint32(sort.Search(x.prints.n, func(ref int) bool { return x.heads.at(uint32(ref)) >= before }))
	}
	return s
}

// look fills told.
func (s *search) look() {
	s.tables(&s.index.all)
	s.read()
}

// tables reads the buckets of the fingerprint, small ones first. The first k tables contain
// everything that differs in fewer than k bits, so that large buckets often need not be read
// once enough near ones are known.
func (s *search) tables(t *tables) {
	var buckets [MaxDistance + 1]view
	var places [MaxDistance + 1]int
	order := places[:len(t.groups)]
	for i := range order {
		buckets[i] = s.index.bucket(t, i, s.want)
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return buckets[a].len() - buckets[b].len() })
	depth := len(s.path)
	s.path = append(s.path, nil)
	for k, i := range order {
		if s.distance < k || s.before != none && len(s.told) > 0 {
			break
		}
		if d := buckets[i].divided; d != nil {
			s.tables(&d.tables)
		} else {
			s.bucket(buckets[i])
		}
		if s.held > s.limit {
			s.read()
		}
		s.path[depth] = append(s.path[depth], t.groups[i].mask)
	}
	s.path = s.path[:depth]
}

func (s *search) bucket(v view) {
	refs := v.refs
	if s.refs != none {
		n, _ := slices.BinarySearch(refs, s.refs)
		refs = refs[:n]
	}
	if v.folds == nil {
		for _, ref := range refs {
			s.compare(ref)
		}
		return
	}
	want, distance := fold(s.want), s.distance
	for i, f := range v.folds[:len(refs)] {
		if bits.OnesCount32(f^want) <= distance {
			s.compare(refs[i])
			distance = s.distance
		}
	}
}

func (s *search) compare(ref uint32) {
	diff := s.want ^ s.index.prints.at(ref)
	d := bits.OnesCount64(diff)
	if d == 0 {
		s.same = ref
	}
	if d > s.distance || d == s.distance && ref > s.last || !s.first(diff) {
		return
	}
	s.found[d] = append(s.found[d], ref)
	if s.held++; s.held == maxHeld {
		s.read()
	}
}

// first tells whether the present path is the first of those that lead to a fingerprint that
// differs in the bits of diff, so that each fingerprint is found only once.
func (s *search) first(diff uint64) bool {
	for _, masks := range s.path {
		for _, mask := range masks {
			if mask&diff == 0 {
				return false
			}
		}
	}
	return true
}

// read reads the ids of the fingerprints that were found, the nearest first, until it knows
// more than it must return, and discards all fingerprints that add no id.
func (s *search) read() {
	s.told, s.held = s.told[:0], 0
	for d := range s.distance + 1 {
		refs := s.found[d]
		slices.Sort(refs)
		kept := refs[:0]
		for _, ref := range refs {
			if s.adds(ref, d) {
				kept = append(kept, ref)
			}
			if len(s.told) > s.limit {
				s.distance, s.last, s.unread = d, ref, true
				break
			}
		}
		s.found[d] = kept
		if s.held += len(kept); s.distance == d {
			break
		}
	}
}

// adds puts the documents of a fingerprint into told, and tells whether one of them was new
// there.
func (s *search) adds(ref uint32, distance int) (some bool) {
	x := s.index
	for at := x.heads.at(ref); at != none && at < s.before && len(s.told) <= s.limit; at = x.texts.next(at) {
		id := x.texts.id(at)
		if bytes.Equal(id, s.own) {
			continue
		}
		s.oldest = min(s.oldest, at)
		if !slices.ContainsFunc(s.told, func(t told) bool { return bytes.Equal(x.texts.id(t.at), id) }) {
			s.told = append(s.told, told{at, distance})
			some = true
		}
	}
	return some
}
