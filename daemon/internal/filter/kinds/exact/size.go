package exact

import (
	"math"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
)

// size implements kind.Kind.
func size(spec engine.Spec, c kind.Contents) (kind.Size, error) {
	bits := spec.DigestBits()
	s := kind.Size{
		Memory: newTable(bits < 128).Expected(c.Items), File: formatOf(bits < 128).Expected(c.Items), Journal: 2 * kind.SlotBytes,
		FalsePositives: math.Ldexp(float64(c.Items), -bits),
	}
	if bits < 128 {
		s.Journal /= 2
	}
	return s, nil
}
