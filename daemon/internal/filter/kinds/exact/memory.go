// Package exact is the kind exact: any number of items are remembered by their hashes, of 128 bits
// or the first 64 of them, until they are forgotten. The table and its file are in package keyed;
// this package makes them from a spec.
package exact

import (
	"errors"
	"fmt"
	"math"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/keyed"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Kind is the kind exact.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "exact", Size: size, File: "hashes", Width: 2, Parts: table.Groups, Checked: "hashes: %d blocks checked",
		New: func(spec engine.Spec, b engine.Identity, clock timing.Clock) (kind.Memory, error) {
			return formatOf(spec.DigestBits() < 128).New(b, clock), nil
		},
		Read: read,
	}
}

// size implements kind.Kind.
func size(spec engine.Spec, c kind.Contents) (kind.Size, error) {
	bits := spec.DigestBits()
	s := formatOf(bits < 128).Size(c)
	s.FalsePositives = math.Ldexp(float64(c.Items), -bits)
	return s, nil
}

func formatOf(short bool) keyed.Format {
	return keyed.Format{Magic: [8]byte{'U', 'R', 'I', 'E', 'X', 'A', 'C', 'T'}, Short: short}
}

func read(spec engine.Spec, path string, clock timing.Clock) (kind.Memory, uint64, error) {
	m, err := formatOf(false).Read(path, clock)
	if err != nil {
		return nil, 0, err
	}
	if spec.Params != nil && m.Head.Short != (spec.DigestBits() < 128) {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w: it has other digests than those of %d bits that the filter has", path, bloom.ErrCorrupt, spec.DigestBits()), m.Free())
	}
	return m, m.Head.From, nil
}
