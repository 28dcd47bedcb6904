// Package simhash is the kind simhash: it remembers the fingerprints of texts, under the ids that
// they came with. The index is in the package simhash outside the kinds; this package makes it
// from a spec, and defines the contents of its file and of its journal.
package simhash

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/simhash"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Kind is the kind simhash.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "simhash", Size: size, File: "fingerprints", Width: 1, Checked: "fingerprints: %d blocks checked",
		New: func(spec engine.Spec, b engine.Identity, _ timing.Clock) (kind.Memory, error) {
			h, err := headerOf(spec)
			if err != nil {
				return nil, err
			}
			h.seed, h.generation, h.created = b.Seed, b.Generation, b.Created
			return newMemory(h), nil
		},
		Read: read,
	}
}

// headerOf returns the header for a spec.
func headerOf(spec engine.Spec) (header, error) {
	p, ok := spec.Params.(configs.Simhash)
	if !ok {
		return header{}, fmt.Errorf("filter %s: its parameters are those of another kind", spec.Name)
	}
	hash, err := simhash.ParseFeatureHash(p.FeatureHash)
	if err != nil {
		return header{}, fmt.Errorf("filter %s: feature_hash: %w", spec.Name, err)
	}
	if p.Distance > simhash.MaxDistance {
		return header{}, fmt.Errorf("filter %s: distance: %d: want %d at most", spec.Name, p.Distance, simhash.MaxDistance)
	}
	return header{distance: int(p.Distance), hash: hash}, nil
}

// memory implements kind.Memory with an index.
type memory struct {
	head    header
	index   *simhash.Index
	journal kind.Journal
	replay  assembly
	read    int // blocks
}

var _ kind.Similar = (*memory)(nil)

func newMemory(h header) *memory {
	return &memory{head: h, index: simhash.NewIndex(h.distance)}
}

func (m *memory) Distance() int                  { return m.head.distance }
func (m *memory) Log(j kind.Journal)             { m.journal = j }
func (m *memory) Seed() uint64                   { return m.head.seed }
func (m *memory) Checked() int                   { return m.read }
func (m *memory) Bytes() uint64                  { return m.index.Bytes() }
func (m *memory) MemoryFor(o engine.More) uint64 { return m.index.MemoryFor(o.Documents, o.IDBytes) }
func (m *memory) Free() error                    { return m.index.Free() }

func (m *memory) Fingerprint(text string) (print uint64, ok bool) {
	if simhash.TooShort(text) {
		return 0, false
	}
	return m.head.hash.Fingerprint(text), true
}

func (m *memory) Stats() engine.Stats {
	return engine.Stats{Items: m.index.Len(), Bytes: m.index.Bytes(), Generation: m.head.generation}
}

// maxTold is how many bytes the ids of near documents may have in the answer to one call.
// Beyond it, a document is only reported to be near others.
const maxTold = 32 << 20

// toldHeld is what a near document takes beside its id, which is copied and written into the answer:
// its Nearby, and the text round the id.
const toldHeld = 64

func (m *memory) Near(docs []engine.Document, how engine.Nearness, found []engine.Comparison) error {
	told, full := 0, false
	var near []simhash.Near
	var slots []bloom.Hash
	for i, d := range docs {
		q := simhash.Query{Document: simhash.Document{ID: []byte(d.ID), Fingerprint: d.Fingerprint}, Distance: how.Distance, Limit: how.Limit}
		if full {
			q.Limit = 0
		}
		var a simhash.Answer
		if how.Remember {
			var err error
			a, err = m.index.Add(q, near[:0], func() {
				slots = appendSlots(slots[:0], q.Document)
				m.journal.AppendEntries(slots)
			})
			if err != nil {
				return err
			}
		} else {
			a = m.index.Near(q, near[:0])
		}
		found[i] = engine.Comparison{New: a.New, More: a.More}
		if near = a.Near; len(near) == 0 {
			continue
		}
		ids := 0
		for _, n := range near {
			ids += len(n.ID)
		}
		if how.Tell != nil && !how.Tell(len(near)*toldHeld+2*ids) {
			full, found[i].More = true, true
			continue
		}
		found[i].Near = make([]engine.Nearby, len(near))
		for j, n := range near {
			found[i].Near[j] = engine.Nearby(n)
		}
		told += ids
		full = told >= maxTold
	}
	return nil
}

// Slots implements kind.Similar: each document may be a separate record, which takes one more
// slot.
func (m *memory) Slots(docs []engine.Document) int {
	n := len(docs)
	for _, d := range docs {
		n += slotsOf(len(d.ID))
	}
	return n
}

// Apply applies documents; a document may begin in one call and end in the next.
func (m *memory) Apply(slots []bloom.Hash) error {
	for _, s := range slots {
		if d, whole := m.replay.add(s); whole {
			if err := m.index.Put(d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *memory) Write(fs disk.FS, path string, from uint64) error {
	h := m.head
	h.from = from
	return writeFile(fs, path, h, m.index)
}

func read(spec engine.Spec, path string, _ timing.Clock) (kind.Memory, uint64, error) {
	var m *memory
	var none error // no memory for a document, which is no damage
	blocks, err := readFile(path, func(h header) error {
		if spec.Params != nil {
			want, err := headerOf(spec)
			if err != nil {
				return err
			}
			if want.distance != h.distance || want.hash != h.hash {
				return fmt.Errorf("%w: it is for a distance of %d and %s, the filter for %d and %s", bloom.ErrCorrupt, h.distance, h.hash, want.distance, want.hash)
			}
		}
		m = newMemory(h)
		return nil
	}, func(d simhash.Document) {
		if none == nil {
			none = m.index.Put(d)
		}
	})
	if err = cmp.Or(none, err); err != nil {
		if m != nil {
			err = errors.Join(err, m.Free())
		}
		return nil, 0, err
	}
	m.read = blocks
	return m, m.head.from, nil
}
