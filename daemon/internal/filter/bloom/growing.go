package bloom

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Growing is a map that adds a layer when the last one is full: header.go describes the
// layers. It has the methods of a Map, with the same meaning, and is safe for concurrent use.
type Growing struct {
	// mu is read-locked while keys are added, and write-locked while a layer is added: so all
	// concurrent calls of Add agree on which layer is the last, and its test-and-set decides.
	mu  sync.RWMutex
	top atomic.Pointer[top]

	onAdd  func(keys []Hash, fresh []bool)
	onGrow func(layers int)
}

// top is the state of a Growing at one time. It is replaced, not changed.
type top struct {
	header Header
	bytes  uint64 // of all layers
	layers []*Map
	full   uint64 // set bits of the last layer that make a further layer due
	over   uint64 // the same in the middle of a batch
}

// NewGrowing makes an empty map with the layers that the header says.
func NewGrowing(h Header) (*Growing, error) {
	if err := h.validate(); err != nil {
		return nil, err
	}
	if h.Layers == 0 {
		return nil, fmt.Errorf("bit-map of fixed size: cannot grow")
	}
	g := new(Growing)
	none := h
	none.Layers = 0
	g.top.Store(&top{header: none})
	if err := g.growTo(int(h.Layers)); err != nil {
		_ = g.Close()
		return nil, err
	}
	return g, nil
}

// growTo adds layers until there are n; the caller holds mu, or nobody else knows g yet.
func (g *Growing) growTo(n int) error {
	for was := g.top.Load(); len(was.layers) < n; was = g.top.Load() {
		h := was.header
		h.Layers++
		if err := h.validate(); err != nil {
			return err
		}
		l := h.Layer(len(was.layers))
		m, err := makeMap(l)
		if err != nil {
			return err
		}
		m.OnAdd(g.onAdd)
		if g.onGrow != nil {
			g.onGrow(len(was.layers) + 1)
		}
		g.top.Store(&top{
			header: h,
			bytes:  h.Bytes(),
			layers: append(was.layers[:len(was.layers):len(was.layers)], m),
			full:   l.OnesOf(l.Capacity),
			over:   l.OnesOf(l.Capacity + l.Capacity/overfill),
		})
	}
	return nil
}

// overfill says how far a batch may exceed a layer's capacity: by one overfill-th of it. Up to
// there, layers are added only between batches.
const overfill = 32

// due reports whether a further layer is due.
func (t *top) due(full uint64) bool {
	return int(t.header.Layers) < MaxLayers && t.layers[len(t.layers)-1].Ones() >= full
}

// Outgrown reports whether the last layer that there can be is full: more items would break the error
// rate.
func (g *Growing) Outgrown() bool {
	t := g.top.Load()
	return int(t.header.Layers) >= MaxLayers && t.layers[len(t.layers)-1].Ones() >= t.full
}

// grow adds the layer that is due. If there is no memory for it, the last layer takes the new
// items, with more false positives, and the next call tries again.
func (g *Growing) grow(seen *top) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.top.Load() == seen {
		_ = g.growTo(len(seen.layers) + 1)
	}
}

// Close frees the memory. The map must not be used afterwards.
func (g *Growing) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var first error
	for _, m := range g.top.Load().layers {
		if err := m.Close(); first == nil {
			first = err
		}
	}
	return first
}

// Header describes the map, with the layers that it has now.
func (g *Growing) Header() Header { return g.top.Load().header }

// OnAdd is Map.OnAdd.
func (g *Growing) OnAdd(f func(keys []Hash, fresh []bool)) {
	g.onAdd = f
	for _, m := range g.top.Load().layers {
		m.OnAdd(f)
	}
}

// OnGrow sets the function that is called with the new number of layers when a layer is added.
// The call comes after all calls of OnAdd's function for keys in the earlier layers, and before
// those for keys in the new one. It is set once, before the first Add.
func (g *Growing) OnGrow(f func(layers int)) { g.onGrow = f }

// scratch is the working memory for one chunk of keys in a map with several layers.
type scratch struct {
	keys  [chunk]Hash
	at    [chunk]uint16 // positions of keys among those of the chunk
	fresh [chunk]bool
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// missing leaves in s those keys that none of the layers has, and returns their number. It sets
// fresh for all keys. It begins with the last layer: that is the largest, and has the items that
// came last, which are asked for most.
func (s *scratch) missing(layers []*Map, keys []Hash, fresh []bool) int {
	last := len(layers) - 1
	layers[last].hasChunk(keys, fresh)
	n := 0
	for i := range keys {
		s.keys[n], s.at[n] = keys[i], uint16(i)
		if fresh[i] {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	var closed [MaxLayers][]block
	for i, l := range layers[:last] {
		l.ahead.Prefetch(s.keys[:min(n, Ahead)])
		l.mu.RLock()
		closed[i] = l.blocks
	}
	layers[last].probes.newInAll(closed[:last], s.keys[:n], s.fresh[:n])
	for _, l := range layers[:last] {
		l.mu.RUnlock()
	}
	left := 0
	for j := range n {
		at := s.at[j]
		s.keys[left], s.at[left] = s.keys[j], at
		if fresh[at] = s.fresh[j]; s.fresh[j] {
			left++
		}
	}
	return left
}

// Add is Map.Add. It adds a layer before keys that would make the last one too full.
func (g *Growing) Add(keys []Hash, fresh []bool) int {
	_ = fresh[:len(keys)]
	n := 0
	for start := 0; start < len(keys); start += chunk {
		t := g.top.Load()
		full := t.over
		if start == 0 {
			full = t.full
		}
		if t.due(full) {
			g.grow(t)
		}
		end := min(start+chunk, len(keys))
		n += g.addChunk(keys[start:end], fresh[start:end])
	}
	return n
}

// AddAsItWas is Add without adding layers. Together with GrowTo, in the order in which the
// functions of OnAdd and OnGrow were called, it sets the same bits, so that items that were
// taken for seen still are.
func (g *Growing) AddAsItWas(keys []Hash, fresh []bool) {
	for start := 0; start < len(keys); start += chunk {
		end := min(start+chunk, len(keys))
		g.addChunk(keys[start:end], fresh[start:end])
	}
}

// GrowTo adds layers until there are n.
func (g *Growing) GrowTo(n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.growTo(n)
}

func (g *Growing) addChunk(keys []Hash, fresh []bool) int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	layers := g.top.Load().layers
	last := layers[len(layers)-1]
	if len(layers) == 1 {
		return last.Add(keys, fresh)
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	left := s.missing(layers, keys, fresh)
	n := last.addChunk(s.keys[:left], s.fresh[:left]) // another call may have added some meanwhile
	for i, at := range s.at[:left] {
		fresh[at] = s.fresh[i]
	}
	return n
}

// Has is Map.Has.
func (g *Growing) Has(keys []Hash, fresh []bool) {
	_ = fresh[:len(keys)]
	layers := g.top.Load().layers
	if len(layers) == 1 {
		layers[0].Has(keys, fresh)
		return
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	for start := 0; start < len(keys); start += chunk {
		end := min(start+chunk, len(keys))
		s.missing(layers, keys[start:end], fresh[start:end])
	}
}

// Prefetcher is Map.Prefetcher for the last layer, where most of the items that are asked for are.
// Those that are not in it are fetched from the other layers a few keys ahead of their probe.
func (g *Growing) Prefetcher() Prefetcher {
	layers := g.top.Load().layers
	return layers[len(layers)-1].ahead
}

// Stripe is Map.Stripe.
func (g *Growing) Stripe(i int, buf []byte) []byte {
	t := g.top.Load()
	layer, i := t.header.StripeOf(i)
	return t.layers[layer].Stripe(i, buf)
}

// MergeStripe is Map.MergeStripe. It adds the layers that it needs.
func (g *Growing) MergeStripe(i int, data []byte) error {
	if err := g.Reach(i); err != nil {
		return err
	}
	t := g.top.Load()
	layer, i := t.header.StripeOf(i)
	return t.layers[layer].MergeStripe(i, data)
}

// Reach adds layers until the layer of stripe i exists.
func (g *Growing) Reach(i int) error {
	h := g.Header()
	layer, of := h.StripeOf(i)
	if i < 0 || of >= stripes(h.blocksOf(layer)) {
		return fmt.Errorf("%w: stripe %d: there is none in %d layers", ErrCorrupt, i, MaxLayers)
	}
	return g.GrowTo(layer + 1)
}

// Memory returns how many bytes the bits take, including those of the layer that the next Add
// makes.
func (g *Growing) Memory() uint64 {
	t := g.top.Load()
	if !t.due(t.full) {
		return t.bytes
	}
	h := t.header
	h.Layers++
	return h.Bytes()
}

// MemoryFor is Map.MemoryFor, with the layers that n more items need. They may come in several calls of Add,
// and any but the first of these adds a layer as soon as the last one has its capacity.
func (g *Growing) MemoryFor(n uint64) uint64 {
	t := g.top.Load()
	last := t.layers[len(t.layers)-1]
	ones := last.Ones()
	if n == 0 && ones == 0 && len(t.layers) == 1 {
		return 0
	}
	bytes := t.bytes
	if n == 0 {
		return bytes
	}
	layers, l, has := len(t.layers), last.header, last.header.itemsIn(ones) // has: in the layer l
	grow := func() {
		l, has = t.header.Layer(layers), 0
		bytes += l.Bytes()
		layers++
	}
	if t.due(t.full) {
		grow()
	}
	for layers < MaxLayers && has+n > l.Capacity {
		n -= min(n, l.Capacity-min(has, l.Capacity))
		grow()
	}
	return bytes
}

// itemsIn returns itemsFromFill, rounded.
func (h Header) itemsIn(ones uint64) uint64 { return uint64(h.itemsFromFill(ones) + 0.5) }

// Fill is Map.Fill, for all layers together.
func (g *Growing) Fill() Fill { return FillOf(g.Layers()) }

// FillOf returns how full a map is that consists of these layers.
func FillOf(layers []Layer) Fill {
	if len(layers) == 1 {
		return layers[0].Fill
	}
	var all Fill
	right := 1.0 // the chance that no layer takes a new item for seen
	set, bits := 0.0, 0.0
	for _, l := range layers {
		all.Items += l.Fill.Items
		right *= 1 - l.Fill.FPR
		of := float64(l.Header.Bytes() * 8)
		set, bits = set+l.Fill.Ratio*of, bits+of
	}
	all.FPR, all.Ratio = 1-right, set/bits
	return all
}

// Layers describes each layer and how full it is.
func (g *Growing) Layers() []Layer {
	var all []Layer
	for _, m := range g.top.Load().layers {
		all = append(all, Layer{m.Header(), m.Fill()})
	}
	return all
}

// Layer is one layer of a map that grows.
type Layer struct {
	Header Header
	Fill   Fill
}
