package simhash

import (
	"math/bits"
	"slices"
	"sync"
)

// What an index holds to.
const (
	// MaxDistance is the largest distance that an index can be made for.
	MaxDistance = 7
	// MaxID is how many bytes the id of a document may have.
	MaxID = 2048
	// MaxNear is how many near documents one look-up tells at most. Of documents with one
	// fingerprint no more are kept: nobody would see the others.
	MaxNear = 100
)

// Document is one that was remembered.
type Document struct {
	ID          []byte // not to be changed
	Fingerprint uint64
}

// Near is a document near one that was asked for.
type Near struct {
	ID       string
	Distance int
}

// Index remembers documents by their fingerprints. It is safe for concurrent use.
type Index struct {
	distance int
	divideAt int

	mu     sync.RWMutex
	all    tables
	texts  texts          // of the ids
	prints column[uint64] // the distinct fingerprints, in the order in which they came
	heads  column[uint32] // the first document of each, in texts
	count  uint64         // of documents
	bytes  uint64
}

// NewIndex makes an empty index for look-ups of up to that distance, 0 to MaxDistance.
func NewIndex(distance int) *Index { return newIndex(distance, divideAt) }

func newIndex(distance, divideAt int) *Index {
	return &Index{distance: distance, divideAt: divideAt, all: newTables(evenMasks(distance + 1))}
}

// Len is how many documents are kept.
func (x *Index) Len() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.count
}

// Bytes is how much memory they take.
func (x *Index) Bytes() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.bytes + x.texts.bytes() + x.prints.bytes() + x.heads.bytes()
}

// Near appends to near the documents that differ from fingerprint in up to distance bits,
// limit at most: the nearest first, of equal ones those that came first.
func (x *Index) Near(fingerprint uint64, distance, limit int, near []Near) []Near {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.near(fingerprint, distance, limit, near)
}

func (x *Index) near(fingerprint uint64, distance, limit int, near []Near) []Near {
	s := search{index: x, want: fingerprint, distance: min(distance, x.distance), limit: limit}
	s.tables(x.all)
	for d, refs := range s.found {
		slices.Sort(refs)
		for _, ref := range refs {
			for at := x.heads.at(ref); at != none && len(near) < limit; at = x.texts.next(at) {
				near = append(near, Near{ID: string(x.texts.id(at)), Distance: d})
			}
		}
	}
	return near
}

// Add is Near, and then remembers the document. remembered is called, if the document is kept
// and was not there before, before anybody else can find it.
func (x *Index) Add(doc Document, distance, limit int, near []Near, remembered func()) []Near {
	x.mu.Lock()
	defer x.mu.Unlock()
	near = x.near(doc.Fingerprint, distance, limit, near)
	if x.put(doc) {
		remembered()
	}
	return near
}

// Put remembers a document, and tells whether it is kept and was not there before.
func (x *Index) Put(doc Document) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.put(doc)
}

func (x *Index) put(doc Document) bool {
	ref, there := x.find(doc.Fingerprint)
	if !there {
		ref = uint32(x.prints.n)
		x.prints.append(doc.Fingerprint)
		x.heads.append(x.texts.append(doc.ID))
		x.insert(x.all, doc.Fingerprint, ref, 0)
		x.count++
		return true
	}
	last, n := none, 0
	for at := x.heads.at(ref); at != none; at = x.texts.next(at) {
		if n++; n == MaxNear || slices.Equal(x.texts.id(at), doc.ID) {
			return false
		}
		last = at
	}
	x.texts.link(last, x.texts.append(doc.ID))
	x.count++
	return true
}

// Fingerprints is how many distinct ones there are.
func (x *Index) Fingerprints() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.prints.n
}

// Documents appends to docs those with the fingerprints from to to, in the order in which the
// fingerprints came. Their ids stay as they are.
func (x *Index) Documents(from, to int, docs []Document) []Document {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for ref := uint32(from); ref < uint32(min(to, x.prints.n)); ref++ {
		for at := x.heads.at(ref); at != none; at = x.texts.next(at) {
			docs = append(docs, Document{ID: x.texts.id(at), Fingerprint: x.prints.at(ref)})
		}
	}
	return docs
}

// find is the number of a fingerprint.
func (x *Index) find(print uint64) (ref uint32, there bool) {
	var least []uint32
	for all := x.all; all != nil; {
		var divided tables
		least = nil
		for i := range all {
			b := all[i].bucket(print)
			if b == nil {
				return 0, false
			}
			if b.divided != nil {
				divided = b.divided
			} else if least == nil || len(b.refs) < len(least) {
				least = b.refs
			}
		}
		if least != nil {
			break
		}
		all = divided
	}
	for _, ref := range least {
		if x.prints.at(ref) == print {
			return ref, true
		}
	}
	return 0, false
}

// search looks for fingerprints near one.
type search struct {
	index    *Index
	want     uint64
	distance int
	limit    int
	path     []step
	found    [MaxDistance + 1][]uint32 // by distance
}

// step is a table on the way to a bucket.
type step struct {
	all tables
	i   int
}

func (s *search) tables(all tables) {
	for i := range all {
		b := all[i].bucket(s.want)
		if b == nil {
			continue
		}
		s.path = append(s.path, step{all, i})
		if b.divided != nil {
			s.tables(b.divided)
		} else {
			s.bucket(b.refs)
		}
		s.path = s.path[:len(s.path)-1]
	}
}

func (s *search) bucket(refs []uint32) {
	for _, ref := range refs {
		diff := s.want ^ s.index.prints.at(ref)
		d := bits.OnesCount64(diff)
		if d > s.distance || !s.first(diff) {
			continue
		}
		s.found[d] = append(s.found[d], ref)
		if len(s.found[d]) >= 4*s.limit+16 {
			slices.Sort(s.found[d])
			s.found[d] = s.found[d][:s.limit]
		}
	}
}

// first tells whether the present path is the first of those that lead to a fingerprint that
// differs in the bits of diff, so that each is found once.
func (s *search) first(diff uint64) bool {
	for _, step := range s.path {
		for i := range step.i {
			if step.all[i].mask&diff == 0 {
				return false
			}
		}
	}
	return true
}
