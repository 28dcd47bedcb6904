package bloom

import (
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
)

// size implements kind.Kind. A growing bit-map has as many layers as the items need.
func size(spec engine.Spec, c kind.Contents) (kind.Size, error) {
	bound := spec.Bound()
	h, err := engine.BitMapHeader(spec, engine.Identity{}, !c.InRedis)
	if err != nil {
		return kind.Size{}, err
	}
	s := kind.Size{Journal: kind.SlotBytes}
	if !bound.Grows() {
		s.Layers = []bloom.Header{h}
		s.FalsePositives = h.Expected(c.Items)
	}
	for left := c.Items; bound.Grows() && len(s.Layers) < bloom.MaxLayers; {
		l := h.Layer(len(s.Layers))
		here := left
		if left > l.Capacity && len(s.Layers) < bloom.MaxLayers-1 {
			here = l.Capacity
		}
		s.Layers = append(s.Layers, l)
		s.FalsePositives += l.Expected(here)
		if left -= here; left == 0 {
			break
		}
	}
	stripes := 0
	for _, l := range s.Layers {
		s.Memory += l.Bytes()
		stripes += l.Stripes()
	}
	s.File = bitsOffset + s.Memory + 4*uint64(stripes+1)
	if n := len(s.Layers); bound.Grows() && n < bloom.MaxLayers {
		s.Next = h.Layer(n).Bytes()
	}
	return s, nil
}
