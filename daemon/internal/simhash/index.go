package simhash

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// What an index holds to.
const (
	// MaxDistance is the largest distance that an index can be made for.
	MaxDistance = 7
	// MaxID is how many bytes the id of a document may have.
	MaxID = 1024
	// MaxNear is how many near documents one look-up tells at most. Of documents with one
	// fingerprint no more are kept: nobody would see the others.
	MaxNear = 100
)

// Document is one that was remembered.
type Document struct {
	ID          []byte // not to be changed
	Fingerprint uint64
}

// Query asks for what is near a document.
type Query struct {
	Document
	Distance int // at most that of the index counts
	Limit    int // of what is told, MaxNear at most
}

// Near is a document near one that was asked for.
type Near struct {
	ID       string
	Distance int
}

// recent is of how many documents an index knows in which order they came.
const recent = 1 << 10

// Index remembers documents by their fingerprints: each id with every fingerprint that it came
// with. It is safe for concurrent use.
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

	latest [recent]uint32 // the fingerprint of document number i is at i % recent
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

// Answer is what is near a document.
type Answer struct {
	// New: of the documents of other ids none is near that came before it, be it that it is
	// remembered already. So a document has one answer, however often it is asked about.
	New bool
	// Near are those of other ids, each once: the nearest first, of equal ones by id.
	Near []Near
	// More: there may be further ones. Then of the equally far those are left out that came last.
	More bool
}

// Near looks for the documents that differ from the fingerprint in up to Distance bits. Those
// that it finds are appended to near.
func (x *Index) Near(q Query, near []Near) Answer {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.near(q, near)
}

func (x *Index) near(q Query, near []Near) Answer {
	s := search{index: x, want: q.Fingerprint, own: q.ID, distance: min(q.Distance, x.distance), limit: q.Limit}
	s.tables(x.all)
	a := Answer{New: true, More: s.more}
	// Addresses grow: who has a lower one came before.
	mine := none
	if s.known {
		for at := x.heads.at(s.same); at != none && mine == none; at = x.texts.next(at) {
			if bytes.Equal(x.texts.id(at), q.ID) {
				mine = at
			}
		}
	}
	first := len(near)
	for d, refs := range s.found {
		slices.Sort(refs)
		for _, ref := range refs {
			for at := x.heads.at(ref); at != none; at = x.texts.next(at) {
				id := x.texts.id(at)
				if bytes.Equal(id, q.ID) {
					continue
				}
				a.New = a.New && at > mine
				switch {
				case slices.ContainsFunc(near[first:], func(n Near) bool { return n.ID == string(id) }):
				case len(near)-first == q.Limit:
					a.More = true
				default:
					near = append(near, Near{ID: string(id), Distance: d})
				}
			}
		}
	}
	slices.SortFunc(near[first:], func(a, b Near) int {
		return cmp.Or(a.Distance-b.Distance, strings.Compare(a.ID, b.ID))
	})
	a.Near = near
	return a
}

// Add is Near, and then remembers the document. remembered is called, if the document is kept
// and was not there before, before anybody else can find it. Of several callers with documents
// near each other all but one find another.
func (x *Index) Add(q Query, near []Near, remembered func()) Answer {
	x.mu.RLock()
	seen := x.count
	a := x.near(q, near) // most of the work is done beside others
	x.mu.RUnlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cameNear(q, seen) {
		a = x.near(q, near)
	}
	if x.put(q.Document) {
		remembered()
	}
	return a
}

// cameNear tells whether one of the documents that came after the first seen ones may be near.
func (x *Index) cameNear(q Query, seen uint64) bool {
	if x.count-seen > recent {
		return true
	}
	for ; seen < x.count; seen++ {
		if Distance(x.prints.at(x.latest[seen%recent]), q.Fingerprint) <= q.Distance {
			return true
		}
	}
	return false
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
		x.came(ref)
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
	x.came(ref)
	return true
}

// came counts a document.
func (x *Index) came(ref uint32) {
	x.latest[x.count%recent] = ref
	x.count++
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
	own      []byte // an id that is not looked for
	distance int
	limit    int
	more     bool // some that were found are left out
	same     uint32
	known    bool // the fingerprint is number same
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
		if d == 0 {
			s.same, s.known = ref, true
		}
		if d > s.distance || !s.first(diff) || !s.index.others(ref, s.own) {
			continue
		}
		s.found[d] = append(s.found[d], ref)
		if len(s.found[d]) >= 4*s.limit+16 {
			slices.Sort(s.found[d])
			s.found[d], s.more = s.found[d][:s.limit], true
		}
	}
}

// others tells whether a fingerprint is that of a document with another id.
func (x *Index) others(ref uint32, id []byte) bool {
	for at := x.heads.at(ref); at != none; at = x.texts.next(at) {
		if !bytes.Equal(x.texts.id(at), id) {
			return true
		}
	}
	return false
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
