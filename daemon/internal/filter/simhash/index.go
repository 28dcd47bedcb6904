package simhash

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// The limits of an index.
const (
	// MaxDistance is the largest distance that an index can be made for.
	MaxDistance = 7
	// MaxID is the maximum length in bytes of the id of a document.
	MaxID = 1024
	// MaxNear is the maximum number of near documents that one look-up returns. No more
	// documents than that are kept with the same fingerprint: nobody would see the others.
	MaxNear = 100
)

// Document is a document that is remembered.
type Document struct {
	ID          []byte // not to be changed
	Fingerprint uint64
}

// Query asks for the documents near a given one.
type Query struct {
	Document
	Distance int // no more than that of the index counts
	Limit    int // how many near documents are returned, MaxNear at most
}

// Near is a document near the one of a Query.
type Near struct {
	ID       string
	Distance int
}

// recent is for how many of the last documents an index knows the order in which they came.
const recent = 1 << 10

// Index remembers documents by their fingerprints: each id with every fingerprint that it came
// with. It is safe for concurrent use.
type Index struct {
	distance int
	divideAt int // how many entries a bucket must have before it may be divided
	foldAt   int // how many entries it must have to have folds

	mu        sync.RWMutex
	all       tables
	divisions []*division      // of divided buckets
	large     map[*bucket]bool // of half of divideAt or more, which may be divided
	texts     texts            // of the ids
	prints    column[uint64]   // the distinct fingerprints, in the order in which they came
	heads     column[uint32]   // the first document of each, in texts
	count     uint64           // of documents
	bytes     uint64           // of the regions

	latest [recent]uint32 // the number of the fingerprint of document i is at i % recent
}

// NewIndex makes an empty index for look-ups of up to that distance, 0 to MaxDistance.
func NewIndex(distance int) *Index { return newIndex(distance, divideAt) }

func newIndex(distance, divideAt int) *Index {
	foldAt := min(foldAt, divideAt/16)
	return &Index{distance: distance, divideAt: divideAt, foldAt: foldAt, all: newTables(evenMasks(distance+1), regionBits, foldAt), large: map[*bucket]bool{}}
}

// Free returns the memory of all documents. The index is empty then, and ids that it has told must
// not be used.
func (x *Index) Free() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	errs := []error{x.prints.mem.Free(), x.heads.mem.Free()}
	for _, chunk := range x.texts.chunks {
		errs = append(errs, chunk.Free())
	}
	all := []*tables{&x.all}
	for _, d := range x.divisions {
		all = append(all, &d.tables)
	}
	for _, t := range all {
		for _, r := range t.regions {
			if r != nil {
				errs = append(errs, r.mem.Free())
			}
		}
	}
	x.all = newTables(evenMasks(x.distance+1), regionBits, x.foldAt)
	x.divisions, x.texts, x.prints, x.heads = nil, texts{}, column[uint64]{}, column[uint32]{}
	x.count, x.bytes = 0, 0
	clear(x.large)
	return errors.Join(errs...)
}

// Len returns how many documents are kept.
func (x *Index) Len() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.count
}

// Bytes returns how many bytes of memory they take.
func (x *Index) Bytes() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.bytes + x.texts.bytes() + x.prints.bytes() + x.heads.bytes()
}

// MemoryFor returns how many bytes the index takes at most once n more documents were added, whose
// ids have idBytes together.
func (x *Index) MemoryFor(n, idBytes int) uint64 {
	bytes := x.Bytes()
	if n == 0 {
		return bytes
	}
	x.mu.RLock()
	if len(x.texts.chunks)+1+(idBytes+n*(textsHead+unit))/(textsChunk/2) >= maxChunks {
		x.mu.RUnlock()
		return math.MaxUint64 // more than ids have addresses
	}
	free := 0
	for _, r := range x.all.regions {
		if r == nil {
			free++
		}
	}
	groups := len(x.all.groups)
	region := regionBytes + uint64(unsafe.Sizeof(region{})) + uint64(groups<<x.all.shift)*uint64(unsafe.Sizeof(bucket{}))
	entries := 0 // of one document: a number, and a fold, in each table, with room for a quarter more
	if entries = groups * 10; x.prints.n+n >= x.divideAt {
		entries *= groups + 1 // it may come into a bucket that is divided
	}
	divisions := uint64(0) // an entry takes up to 12 bytes in each of their tables
	for b := range x.large {
		if most := int(b.n) + n; most > max(x.divideAt, int(room(b.n))) {
			divisions += uint64(groups) * (uint64(unsafe.Sizeof(bucket{}))<<divisionWidth(most) + uint64(most)*12)
		}
	}
	columns := columnStep(len(x.prints.mem)) + columnStep(len(x.heads.mem))
	x.mu.RUnlock()
	bytes += uint64(min(free, n*groups)) * region // one for each table may begin
	bytes += uint64(n*(entries+textsHead+unit+8+4) + idBytes)
	bytes += uint64(textsChunk+columns) + divisions
	return bytes + min(bytes/8, uint64(n)*entriesStep)
}

// entriesStep is what one document adds at most to buckets and regions that were full.
const entriesStep = 64 << 10

// Answer tells what is near a document.
type Answer struct {
	// New: no document with another id that came before this one is near, even if this one is
	// remembered already. So a document gets the same answer, however often it is queried.
	New bool
	// Near are the near documents with other ids, each once: the nearest first, equally near
	// ones by id.
	Near []Near
	// More: there may be further ones. Among equally far ones, those that came last are left
	// out.
	More bool
}

// Near looks for the documents that differ from the fingerprint in up to Distance bits. It
// appends those that it finds to near.
func (x *Index) Near(q Query, near []Near) Answer {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.near(q, near)
}

func (x *Index) near(q Query, near []Near) Answer {
	s := newSearch(x, q, none)
	s.look()
	a := Answer{New: len(s.told) == 0, More: len(s.told) > q.Limit}
	// For a document that is remembered already, only those that came before it count.
	if mine := x.address(s.same, q.ID); !a.New && mine != none {
		a.New = s.oldest > mine
		if a.New && s.unread {
			before := newSearch(x, q, mine)
			before.look()
			a.New = len(before.told) == 0
		}
	}
	first := len(near)
	for _, t := range s.told[:min(len(s.told), q.Limit)] {
		near = append(near, Near{ID: string(x.texts.id(t.at)), Distance: t.distance})
	}
	slices.SortFunc(near[first:], func(a, b Near) int {
		return cmp.Or(a.Distance-b.Distance, strings.Compare(a.ID, b.ID))
	})
	a.Near = near
	return a
}

// address returns the address of the document with that id and with fingerprint number ref, or
// none if it does not exist.
func (x *Index) address(ref uint32, id []byte) uint32 {
	if ref == none {
		return none
	}
	for at := x.heads.at(ref); at != none; at = x.texts.next(at) {
		if bytes.Equal(x.texts.id(at), id) {
			return at
		}
	}
	return none
}

// Add does what Near does, and then remembers the document. If the document is kept and did not
// exist before, Add calls remembered before anybody else can find it. If several callers add
// documents near each other, all but one find another. After an error, which says that there is no
// memory, the index is unusable.
func (x *Index) Add(q Query, near []Near, remembered func()) (Answer, error) {
	x.mu.RLock()
	seen := x.count
	a := x.near(q, near) // most of the work is done in parallel with others
	x.mu.RUnlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cameNear(q, seen) {
		a = x.near(q, near)
	}
	kept, err := x.insertDocument(q.Document)
	if kept {
		remembered()
	}
	return a, err
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

// Put remembers a document. The error is that of Add.
func (x *Index) Put(doc Document) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, err := x.insertDocument(doc)
	return err
}

// insertDocument tells whether the document is kept and was not there before.
func (x *Index) insertDocument(doc Document) (kept bool, err error) {
	ref, there := x.find(doc.Fingerprint)
	last, n := none, 0
	if there {
		for at := x.heads.at(ref); at != none; at = x.texts.next(at) {
			if n++; n == MaxNear || slices.Equal(x.texts.id(at), doc.ID) {
				return false, nil
			}
			last = at
		}
	}
	at, err := x.texts.append(doc.ID)
	if err != nil {
		return false, err
	}
	if there {
		x.texts.link(last, at)
	} else {
		ref = uint32(x.prints.n)
		if err := errors.Join(x.heads.append(at), x.prints.append(doc.Fingerprint)); err != nil {
			return false, err
		}
		if err := x.insert(&x.all, doc.Fingerprint, ref, 0); err != nil {
			return false, err
		}
	}
	x.latest[x.count%recent] = ref
	x.count++
	return true, nil
}

// Fingerprints returns how many distinct fingerprints there are.
func (x *Index) Fingerprints() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.prints.n
}

// Documents appends to docs the documents with the fingerprints number from up to, but not
// including, to, in the order in which the fingerprints came. Their ids are those of the index until Free.
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

// find returns the number of a fingerprint.
func (x *Index) find(print uint64) (ref uint32, there bool) {
	least := x.least(&x.all, print)
	for i, ref := range least.refs {
		if (least.folds == nil || least.folds[i] == fold(print)) && x.prints.at(ref) == print {
			return ref, true
		}
	}
	return 0, false
}
