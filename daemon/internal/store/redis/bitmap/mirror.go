package bitmap

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// mirror has what a daemon knows to be in a layer in Redis, and nothing else. It is either whole,
// with all bits that this daemon has heard of, or, if redis.mirror_bytes does not suffice for
// that, partial, with the items that were asked for last.
type mirror interface {
	// Missing sets missing[i] to the bits of keys[i] that are not known to be set.
	Missing(keys []bloom.Hash, missing []uint16)
	// Learn takes in items of which Redis has all bits.
	Learn(keys []bloom.Hash)
	// MergeStripe takes in a stripe as Redis has it, if the mirror is whole.
	MergeStripe(i int, data []byte) error
	// Stripe writes what is known of a stripe into buf.
	Stripe(i int, buf []byte) []byte
	// Ones is how many bits are known to be set, 0 if the mirror is partial.
	Ones() uint64
	whole() bool
	adjust() error
	Close() error
}

// newMirror returns the mirror of layer n of the filter e, whose header is h.
func newMirror(mirrors *budget.Budget, e registry.Entry, n int, h bloom.Header) (mirror, error) {
	if mirrors.TakeWhole(h.Bytes()) {
		var bits *bloom.Map
		var err error
		if e.Header.Layers > 0 {
			bits, err = bloom.NewLayer(e.Header, n)
		} else {
			bits, err = bloom.New(h)
		}
		if err != nil {
			mirrors.GiveWhole(h.Bytes())
			return nil, err
		}
		return &wholeMirror{Map: bits, of: mirrors}, nil
	}
	recent, err := bloom.NewRecent(h, 0)
	if err != nil {
		return nil, err
	}
	m := &partialMirror{Recent: recent, header: h}
	m.part = mirrors.BitMap(h.Bytes(), recent.SetTarget)
	if err := recent.Fit(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

type wholeMirror struct {
	*bloom.Map
	of *budget.Budget
}

func (m *wholeMirror) Learn(keys []bloom.Hash) { m.Add(keys, make([]bool, len(keys))) }
func (m *wholeMirror) whole() bool             { return true }
func (m *wholeMirror) adjust() error           { return nil }

func (m *wholeMirror) Close() error {
	m.of.GiveWhole(m.Header().Bytes())
	return m.Map.Close()
}

type partialMirror struct {
	*bloom.Recent
	header bloom.Header
	part   *budget.Part
}

func (m *partialMirror) Ones() uint64  { return 0 }
func (m *partialMirror) whole() bool   { return false }
func (m *partialMirror) adjust() error { return m.Adjust() }

// MergeStripe only returns what is wrong: it is not known to which items the bits belong.
func (m *partialMirror) MergeStripe(i int, data []byte) error {
	if i < 0 || i >= m.header.Stripes() || len(data) != m.header.StripeSize(i) {
		return fmt.Errorf("%w: stripe %d of %d bytes: it is none of %d stripes", bloom.ErrCorrupt, i, len(data), m.header.Stripes())
	}
	return nil
}

func (m *partialMirror) Close() error {
	m.part.Leave()
	return m.Recent.Close()
}

// Sweep implements base.Sweeping.
func (s *Set) Sweep() error {
	var errs []error
	for _, l := range s.layers() {
		errs = append(errs, l.mirror.adjust())
	}
	return errors.Join(errs...)
}

// Mirror implements base.Mirroring. An item counts once for each layer whose mirror is partial.
func (s *Set) Mirror() (all base.Mirror) {
	for _, l := range s.layers() {
		switch m := l.mirror.(type) {
		case *wholeMirror:
			all.Bytes += l.header.Bytes()
		case *partialMirror:
			asked, found, evicted := m.Counts()
			all.Bytes += m.Bytes()
			all.Asked, all.Found, all.Evicted, all.Partial = all.Asked+asked, all.Found+found, all.Evicted+evicted, true
		}
	}
	return all
}

// MemoryFor implements engine.Weighed: the memory of all mirrors has a bound.
func (s *Set) MemoryFor(engine.More) uint64 { return s.Mirror().Bytes }

// merge takes in a stripe that was read from Redis.
func (l *layer) merge(i int, data []byte) error {
	if !l.mirror.whole() {
		ones := 0
		for _, b := range data {
			ones += bits.OnesCount8(b)
		}
		l.counts.set(i, uint64(ones), busy)
	}
	return l.mirror.MergeStripe(i, data)
}

// byStripe groups keys by stripe.
func (l *layer) byStripe(keys []bloom.Hash) map[int][]bloom.Hash {
	by := map[int][]bloom.Hash{}
	for _, key := range keys {
		stripe, _ := l.header.Place(key)
		by[stripe] = append(by[stripe], key)
	}
	return by
}

// lookedAt is how many stripes are checked in one round trip.
const lookedAt = 64

// look is read for a layer whose mirror is partial: it makes sure that all stripes exist, and has
// their bits counted.
func (s *Set) look(ctx context.Context, l *layer) (lost error) {
	for start := 0; start < len(l.keys); start += lookedAt {
		end := min(start+lookedAt, len(l.keys))
		heads, tails, ones := make([]*redis.StringCmd, end-start), make([]*redis.StringCmd, end-start), make([]*redis.IntCmd, end-start)
		before := l.counts.quiet()
		_, err := s.Servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range l.keys[start:end] {
				heads[i] = p.GetRange(ctx, key, 0, headBytes-1)
				past := int64(headBytes + l.header.StripeSize(start+i))
				tails[i] = p.GetRange(ctx, key, past, past)
				ones[i] = p.BitCount(ctx, key, &redis.BitCount{Start: headBytes, End: -1})
			}
			return nil
		})
		if redis.HasErrorPrefix(err, "WRONGTYPE") {
			for i, head := range heads {
				if redis.HasErrorPrefix(head.Err(), "WRONGTYPE") {
					return shared.Damaged(registry.Foreign(l.keys[start+i]))
				}
			}
		}
		if err != nil {
			return err
		}
		for i := range heads {
			length := headBytes + l.header.StripeSize(start+i) + len(tails[i].Val()) // at most
			err := l.checkStripe(start+i, heads[i].Val(), length)
			if errors.Is(err, insync.ErrLost) {
				lost = err
				continue
			}
			if err != nil {
				return err
			}
			l.counts.set(start+i, uint64(ones[i].Val()), before)
		}
	}
	return lost
}

// findClosed clears missing for those of keys that a closed layer has. For layers that are
// mirrored whole, the mirror says so; for others, Redis is asked. What was decided in a closed
// layer cannot change any more, so this need not happen at the moment when the last layer
// decides.
func (s *Set) findClosed(ctx context.Context, closed []*layer, keys []bloom.Hash, missing []uint16) error {
	words := make([]uint16, len(keys))
	if len(closed) == 0 {
		return nil
	}
	for _, l := range closed {
		l.mirror.Missing(keys, words)
		for i, w := range words {
			if w == 0 {
				missing[i] = 0
			}
		}
	}
	for _, l := range closed {
		if l.mirror.whole() {
			continue
		}
		for i, m := range missing {
			if words[i] = 0; m != 0 {
				words[i] = l.header.AllMissing()
			}
		}
		var found []bloom.Hash
		var lost error
		err := s.ask(ctx, l, keys, words, "get", func(q *question, index int, v servers.Verdict, _ uint64) {
			switch {
			case lost != nil:
			case v == servers.Undone || v == servers.Unknown || q.Val()[0] != l.closed:
				if lost = q.Err(); lost == nil {
					lost = fmt.Errorf("key %s: %w", l.keys[0], insync.ErrLost)
				}
			case v == servers.Seen:
				missing[index] = 0
				found = append(found, keys[index])
			}
		})
		if err == nil {
			err = lost
		}
		if err != nil {
			return err
		}
		l.mirror.Learn(found)
	}
	return nil
}
