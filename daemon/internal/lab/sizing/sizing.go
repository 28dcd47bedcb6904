// Package sizing predicts what a filter will take before it is created: memory, disk, Redis,
// archive, and the time of a start. The sizes are computed by the kinds and stores themselves;
// the time of a start is measured with a smaller filter of the kind on this machine.
//
// It queries no daemon and leaves no filter behind.
package sizing

import (
	"errors"
	"fmt"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/exact"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/footprint"
)

// ErrUnknown is wrapped in the error for a kind that does not predict what its filters take.
var ErrUnknown = errors.New("does not say what its filters take")

// programBytes is the resident memory of a daemon beside its filters, when it is not in the
// middle of a large batch: 25 to 32 MB were measured.
const programBytes = 30 << 20

// What the embedded store does by default.
const (
	segmentBytes = 16 << 20 // of a journal, at most
	firstSegment = 1 << 20
)

// Plan is what a filter takes. Sizes are in bytes, times in seconds.
type Plan struct {
	Kind         string  `json:"kind"`
	Layout       string  `json:"layout,omitempty"`
	Items        uint64  `json:"items"`
	Memory       uint64  `json:"memory_bytes"` // 0: it is not kept with store embedded, and takes no file and no journal
	PerItem      float64 `json:"memory_bytes_per_item"`
	Resident     uint64  `json:"resident_bytes"` // of a daemon that has only this filter; soon after a start up to 48 MiB more
	Bits         *Bits   `json:"bit_map,omitempty"`
	Prints       *Prints `json:"fingerprints,omitempty"`
	Digest       int     `json:"digest_bits,omitempty"`         // that are kept of each hash
	Mistaken     float64 `json:"false_positive_rate,omitempty"` // expected with that many items, without a bit-map
	File         uint64  `json:"file_bytes"`
	Journal      uint64  `json:"journal_bytes"`          // at most, while no checkpoint is late
	JournalItem  uint64  `json:"journal_bytes_per_item"` // without the heads of records
	Disk         uint64  `json:"disk_bytes"`             // at most: while a checkpoint is written
	Redis        uint64  `json:"redis_bytes,omitempty"`
	Archive      uint64  `json:"archive_bytes,omitempty"` // of a version in which all stripes have changed
	Mirror       uint64  `json:"mirror_bytes,omitempty"`  // of each daemon with store redis; for kind timing, if this daemon has accepted all items
	Mirrored     uint64  `json:"mirrored_items,omitempty"`
	Start        float64 `json:"start_seconds,omitempty"`         // right after a checkpoint, files in the cache
	StartLongest float64 `json:"start_longest_seconds,omitempty"` // with the longest journal
}

// Bits are what a plan says about a bit-map.
type Bits struct {
	Capacity       uint64  `json:"capacity"`
	ErrorRate      float64 `json:"error_rate"`
	K              int     `json:"k"`
	Blocks         uint64  `json:"blocks"`
	Bits           uint64  `json:"bits"`
	BitsPerItem    float64 `json:"bits_per_item"`
	Layers         int     `json:"layers"`
	NextLayer      uint64  `json:"next_layer_bytes,omitempty"`
	FalsePositives float64 `json:"false_positive_rate"` // expected with that many items
}

// Prints are what a plan says about fingerprints.
type Prints struct {
	Capacity     uint64  `json:"capacity"`
	MaxCapacity  uint64  `json:"capacity_at_most"` // with this error rate
	ErrorRate    float64 `json:"error_rate"`
	BytesPerItem float64 `json:"redis_bytes_per_item"`
}

// Settings are the settings of the daemon that a plan is for: checkpoint_bytes and
// redis.mirror_bytes, 0: mirrors are whole.
type Settings struct{ Checkpoint, Mirror uint64 }

// New plans a filter. Its spec must be complete.
func New(spec engine.Spec, contents kind.Contents, of Settings) (Plan, error) {
	if contents.Items == 0 {
		return Plan{}, errors.New("no items: want 1 or more")
	}
	k, err := kinds.Of(spec.Kind)
	if err != nil {
		return Plan{}, err
	}
	if k.Size == nil {
		return Plan{}, fmt.Errorf("kind %s: %w", spec.Kind, ErrUnknown)
	}
	if spec.Fingerprints() {
		return printsOf(spec, contents.Items, of.Mirror), nil
	}
	size, err := k.Size(spec, contents)
	if err != nil {
		return Plan{}, err
	}
	items := contents.Items
	p := Plan{
		Kind: spec.Kind, Items: items, Memory: size.Memory, PerItem: float64(size.Memory) / float64(items), Resident: size.Memory + programBytes,
		File: size.File, JournalItem: size.Journal, Journal: journalOf(items*size.Journal, max(of.Checkpoint, size.Memory/4)),
	}
	p.Disk = 2*p.File + p.Journal
	if len(size.Layers) > 0 {
		p.Bits = bitsOf(spec, size, items)
		p.Archive = size.Memory
	} else {
		p.Mistaken = size.FalsePositives
	}
	if _, ok := spec.Params.(configs.Digested); ok {
		p.Digest = spec.DigestBits()
	}
	if spec.NotIn("redis") == nil {
		contents.InRedis = true
		if size, err = k.Size(spec, contents); err != nil {
			return Plan{}, err
		}
		p.Redis, _ = footprint.Expected(spec, items, size.Memory)
	}
	if p.Redis > 0 {
		p.Mirror, p.Mirrored = footprint.Mirror(spec, items, size.Memory, of.Mirror)
	}
	return p, nil
}

// printsOf plans a filter of fingerprints, which only Redis keeps.
func printsOf(spec engine.Spec, items, mirror uint64) Plan {
	p, bound := Plan{Kind: spec.Kind, Layout: spec.Layout(), Items: items}, spec.Bound()
	p.Redis, p.Mistaken = exact.ExpectedFingerprints(bound.Items, items)
	p.Mirror, p.Mirrored = footprint.Mirror(spec, items, 0, mirror)
	p.Resident = programBytes + p.Mirror
	p.Prints = &Prints{bound.Items, configs.MaxPrints(bound.ErrorRate), bound.ErrorRate, float64(p.Redis) / float64(items)}
	return p
}

// journalOf returns the space of a journal for which a checkpoint is due at so many bytes, with
// the segment that is being written and the one that is made ahead.
func journalOf(entries, due uint64) uint64 {
	segment := min(segmentBytes, 2*max(firstSegment, entries)) // each is twice the one before
	return min(entries, due) + 2*segment
}

func bitsOf(spec engine.Spec, size kind.Size, items uint64) *Bits {
	bound := spec.Bound()
	b := &Bits{
		Capacity: bound.Items, ErrorRate: bound.ErrorRate, K: size.Layers[0].K(), Bits: 8 * size.Memory, Layers: len(size.Layers),
		NextLayer: size.Next, FalsePositives: size.FalsePositives, BitsPerItem: 8 * float64(size.Memory) / float64(items),
	}
	for _, l := range size.Layers {
		b.Blocks += l.Blocks
	}
	return b
}
