// Package timing is the kind timing: items are remembered until their deadline, exactly.
// The table of deadlines and its file are in package keyed; this package makes them from a spec.
package timing

import (
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/keyed"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// Kind is the kind timing.
func Kind() kind.Kind {
	return kind.Kind{
		Name: "timing", File: "entries", Width: 2, Parts: table.Groups, Checked: "entries: %d blocks checked",
		New: func(_ engine.Spec, b engine.Identity, clock timing.Clock) (kind.Memory, error) {
			return entries{format.New(b, clock)}, nil
		},
		Size: func(_ engine.Spec, c kind.Contents) (kind.Size, error) { return format.Size(c), nil },
		Read: read,
	}
}

var format = keyed.Format{Magic: [8]byte{'U', 'R', 'I', 'T', 'I', 'M', 'E', 'S'}, Deadlines: true}

// entries implements kind.Expiring.
type entries struct{ *keyed.Memory }

var _ kind.Expiring = entries{}

func (e entries) AddFor(keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error) {
	return e.Table.Add(keys, expire, fresh)
}

func read(_ engine.Spec, path string, clock timing.Clock) (kind.Memory, uint64, error) {
	m, err := format.Read(path, clock)
	if err != nil {
		return nil, 0, err
	}
	return entries{m}, m.Head.From, nil
}
