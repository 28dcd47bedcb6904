package bitmap

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
)

// layer is a bit-map in Redis and its mirror: one of several layers of a filter that grows, or
// the only one of a filter that does not.
//
// While a layer is open its test-and-set decides what is new. When it is full the next layer is
// made, and then each stripe of this one is closed: its head changes. A BITFIELD reads the head
// with the bits, at one moment, so a daemon that finds a stripe closed knows all that was decided
// there, and goes on to the next layer, which decides from then on. So daemons need not agree on
// when a filter grows, and a daemon that has not heard of it finds out by asking.
//
// A BITFIELD on a closed stripe still sets the bits of an item on which the next layer decides;
// they make the item look seen to daemons that look at this layer later, and it is seen by then.
type layer struct {
	n         int
	header    bloom.Header // of this layer alone
	mirror    mirror
	keys      []string // of the stripes
	boxedKeys []any    // the same, as go-redis takes them
	counts    counts

	head, closedHead []byte
	open, closed     int64       // the heads as BITFIELD GET i64 reads them
	fullAt           uint64      // bits that are set by as many items as its capacity
	isClosed         atomic.Bool // all stripes are closed, and a whole mirror has what was decided there
}

// newLayer returns layer n of the filter e, with nothing in its mirror.
func newLayer(mirrors *budget.Budget, e registry.Entry, n int) (*layer, error) {
	l := &layer{n: n}
	l.header = e.Header
	if e.Header.Layers > 0 {
		l.header = e.Header.Layer(n)
	}
	var err error
	if l.mirror, err = newMirror(mirrors, e, n, l.header); err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	}
	l.fullAt = l.header.OnesOf(l.header.Capacity)
	l.head, l.closedHead = head(openMark, l.header), head(closedMark, l.header)
	l.open, l.closed = headNumber(l.head), headNumber(l.closedHead)
	l.counts.of = make([]count, l.header.Stripes())
	first := firstStripe(e, n)
	for i := range l.header.Stripes() {
		key := registry.StripeKey(e, first+i)
		l.keys, l.boxedKeys = append(l.keys, key), append(l.boxedKeys, key)
	}
	return l, nil
}

// fill returns the fill of the mirror or of Redis, whichever has more.
func (l *layer) fill() bloom.Fill {
	fill := l.header.Fill(l.mirror.Ones())
	if shared := l.header.Fill(l.counts.sum()); shared.Ratio > fill.Ratio {
		return shared
	}
	return fill
}

// full reports whether a further layer is due.
func (l *layer) full() bool { return l.ones() >= l.fullAt }

// ones returns how many bits are set, as the mirror or Redis has more.
func (l *layer) ones() uint64 { return max(l.mirror.Ones(), l.counts.sum()) }

// present returns the head that the stripes of the layer are known to have.
func (l *layer) present() []byte {
	if l.isClosed.Load() {
		return l.closedHead
	}
	return l.head
}

// The value of a stripe's key begins with a mark and a checksum of the layer's header, so that it
// belongs to this map and generation only. The mark of a closed stripe has all bits of the other
// mark, so that it stays closed when they are or-ed.
const (
	headBytes  = 8
	openMark   = "URIS"
	closedMark = "URIs"
)

func head(mark string, h bloom.Header) []byte {
	raw, _ := h.MarshalBinary() // the error is always nil
	return binary.BigEndian.AppendUint32([]byte(mark), bloom.Checksum(raw))
}

func headNumber(head []byte) int64 { return int64(binary.BigEndian.Uint64(head)) }

// closeStripe gives the stripe in KEYS[1] the head ARGV[2], if it has the head ARGV[1].
var closeStripe = redis.NewScript(`
local head = redis.call('GETRANGE', KEYS[1], 0, 7)
if head == ARGV[2] then return 1 end
if head ~= ARGV[1] then return 0 end
redis.call('SETRANGE', KEYS[1], 0, ARGV[2])
return 1
`)

// grow returns the layer after l; l is closed and learned when it returns.
func (s *Set) grow(ctx context.Context, l *layer) (*layer, error) {
	s.growing.Lock()
	defer s.growing.Unlock()
	layers := s.layers()
	if len(layers) > l.n+1 {
		return layers[l.n+1], nil
	}
	next, err := newLayer(s.Mirrors, s.Entry, l.n+1)
	if err != nil {
		return nil, err
	}
	if err := s.close(ctx, l, next); err != nil {
		_ = next.mirror.Close()
		return nil, err
	}
	l.isClosed.Store(true)
	all := append(layers[:len(layers):len(layers)], next)
	s.all.Store(&all)
	s.Log.Info("filter grew", "filter", s.Spec.Name, "layers", len(all), "capacity", next.header.Capacity)
	return next, nil
}

// close lays the stripes of next, closes those of l, and reads what was decided in them. It may
// be repeated, and begun by several daemons. Stripes are closed in their order, and only when all
// stripes of the next layer exist: one that is missing after that is lost, and must not be laid
// as if it were new.
func (s *Set) close(ctx context.Context, l, next *layer) error {
	begun, err := s.hasClosed(ctx, l)
	if err != nil {
		return err
	}
	for i := range next.keys {
		if begun {
			break
		}
		if _, err := s.putStripe(ctx, next, i, nil, false); err != nil {
			return err
		}
	}
	for _, key := range l.keys {
		done, err := closeStripe.Run(ctx, s.Servers.Admin, []string{key}, l.head, l.closedHead).Int()
		if err == nil && done == 0 {
			err = fmt.Errorf("key %s: %w", key, insync.ErrLost)
		}
		if err != nil {
			return err
		}
	}
	return s.read(ctx, l)
}

// hasClosed reports whether a daemon has begun to close the stripes of l.
func (s *Set) hasClosed(ctx context.Context, l *layer) (bool, error) {
	head, err := s.Servers.Admin.GetRange(ctx, l.keys[0], 0, headBytes-1).Result()
	return head == string(l.closedHead), err
}

// smallPart is the smallest part of a batch after which a layer may be added.
const smallPart = 1000

// growIfFull adds the layer that is due, and returns how many of n items may be added before the
// next check: a 32nd of what the layer is made for, which the margin of its size covers.
func (s *Set) growIfFull(ctx context.Context, n int) (part int, err error) {
	layers := s.layers()
	last := layers[len(layers)-1]
	if s.Entry.Header.Layers == 0 || len(layers) >= bloom.MaxLayers {
		return n, nil
	}
	if last.full() {
		if last, err = s.grow(ctx, last); err != nil {
			return 0, err
		}
	}
	return int(min(uint64(n), max(smallPart, last.header.Capacity/32))), nil
}

// followGrowth adds the layers that other daemons have made.
func (s *Set) followGrowth(ctx context.Context) error {
	if s.Entry.Header.Layers == 0 {
		return nil
	}
	for {
		layers := s.layers()
		last := layers[len(layers)-1]
		if len(layers) >= bloom.MaxLayers {
			return nil
		}
		there, err := s.hasClosed(ctx, last)
		if err == nil && !there {
			var n int64
			n, err = s.Servers.Admin.Exists(ctx, registry.StripeKey(s.Entry, firstStripe(s.Entry, len(layers)))).Result()
			there = n > 0
		}
		if err != nil || !there {
			return err
		}
		if _, err := s.grow(ctx, last); err != nil {
			return err
		}
	}
}

// firstStripe returns the number of the first stripe of layer n among all stripes.
func firstStripe(e registry.Entry, n int) (first int) {
	for i := range n {
		first += e.Header.Layer(i).Stripes()
	}
	return first
}

// Layered is a Set that grows.
type Layered struct{ *Set }

var _ engine.Layered = Layered{}

// Memory implements engine.Growing: of what is mirrored whole, with the layer that is due. What
// is not mirrored whole has a bound of its own.
func (s Layered) Memory() (bytes uint64) {
	layers := s.layers()
	for _, l := range layers {
		if l.mirror.whole() {
			bytes += l.header.Bytes()
		}
	}
	last := layers[len(layers)-1]
	if len(layers) < bloom.MaxLayers && last.mirror.whole() && last.full() {
		bytes += s.Entry.Header.Layer(last.n + 1).Bytes()
	}
	return bytes
}

// MemoryFor implements engine.Weighed, with the layers that so many items may need and that will be mirrored
// whole. An item sets as many bits as it has at most, so they may turn out to need fewer.
func (s Layered) MemoryFor(more engine.More) uint64 {
	layers, h := s.layers(), s.Entry.Header
	last := layers[len(layers)-1]
	items, bits := uint64(more.Items), last.fullAt-min(last.ones(), last.fullAt)
	added := uint64(0)
	for n := len(layers); n < bloom.MaxLayers && items*uint64(h.K()) > bits; n++ {
		l := h.Layer(n)
		if !s.Mirrors.Fits(added + l.Bytes()) {
			break // these have a bound of their own
		}
		added += l.Bytes()
		items -= bits / uint64(h.K())
		bits = l.OnesOf(l.Capacity)
	}
	return s.Set.MemoryFor(more) + added
}

// Outgrown implements engine.Layered.
func (s Layered) Outgrown() bool {
	layers := s.layers()
	return len(layers) >= bloom.MaxLayers && layers[len(layers)-1].full()
}

// Layers describes each layer; a filter that does not grow has one.
func (s *Set) Layers() (all []bloom.Layer) {
	for _, l := range s.layers() {
		all = append(all, bloom.Layer{Header: l.header, Fill: l.fill()})
	}
	return all
}
