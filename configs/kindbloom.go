package configs

import (
	"cmp"
	"fmt"

	"github.com/cr-clawer/urifilter/configs/fault"
)

// Bounds of the kind bloom; package bloom has the same.
const (
	minErrorRate = 1e-6
	maxErrorRate = 0.5
	maxCapacity  = 1 << 40
)

// Bloom is what a filter of the kind bloom is made with.
type Bloom struct {
	// Capacity is the number of items up to which the error rate holds, 1 to 2^40. 0:
	// uri_num_scale.
	Capacity uint64 `yaml:"capacity"`
	// ErrorRate is the share of new items that are mistaken for seen at capacity, 0.000001 to
	// 0.5. 0: accept_error_rate.
	ErrorRate float64 `yaml:"error_rate"`
	// OnFull is what happens over capacity: grow (take more memory, so that the error rate
	// holds for any number of items), warn (go on, with more false positives, reported in log
	// and metrics) or reject (refuse new batches). "": grow. (With a layout of fingerprints the rate
	// grows with the items, from far below.)
	OnFull string `yaml:"on_full"`
	// Layout is what stands for an item: "" for the bits of a bit-map, or fingerprints for a number
	// of 32 bits in Redis.
	Layout    string `yaml:"layout"`
	Canonical `yaml:",inline"`
}

// layoutFingerprints is the layout of filters that keep a fingerprint of each item.
const layoutFingerprints = "fingerprints"

// maxPrints is how many fingerprints can be told apart: 32 bits in each of 2^22 sets.
const maxPrints = 1 << 54

// MaxPrints is the largest capacity at which fingerprints keep an error rate.
func MaxPrints(errorRate float64) uint64 { return min(maxCapacity, uint64(errorRate*maxPrints)) }

// Layout is the layout of a filter of the kind bloom; "": a bit-map.
func (f Filter) Layout() string {
	b, _ := f.Params.(Bloom)
	return b.Layout
}

// Fingerprints tells whether a filter of the kind bloom keeps a fingerprint of each item, and has no bit-map.
func (f Filter) Fingerprints() bool { return f.Layout() == layoutFingerprints }

// KindAndLayout names the kind, and the layout if the filter has one.
func (f Filter) KindAndLayout() string {
	if f.Fingerprints() {
		return f.Kind + " with layout: " + layoutFingerprints
	}
	return f.Kind
}

// HasBitMap tells whether the filter has a bit-map, which the archive keeps.
func (f Filter) HasBitMap() bool {
	kind, _ := KindOf(f.Kind)
	return kind.BitMap && f.Layout() == ""
}

// bloomKind is a bit-map, which mistakes a few new items for seen.
var bloomKind = Kind{
	Name: "bloom", Params: Bloom{}, Lacks: "items of a bloom filter do not expire", BitMap: true, Commands: CommandsBF,
	Parameters: append([]Parameter{
		capacityParameter, errorRateParameter, onFullParameter,
		{
			Key: "layout", Want: `a text, such as "fingerprints"`, Values: []string{layoutFingerprints}, Optional: true,
			Usage: "bloom: `fingerprints` keeps a number of 32 bits for each item in Redis, instead of bits",
		},
	}, canonicalParameters...),
}

// Parameters of all kinds of Bloom filters.
var (
	capacityParameter = Parameter{
		Key: "capacity", Want: "a whole number of items, such as 10000000", Like: "10000000",
		Usage: "`items` at which the error rate still holds, such as 500000 or 150M",
	}
	errorRateParameter = Parameter{
		Key: "error_rate", Want: "a number, such as 0.0001", Like: "0.0001",
		Usage: "`share` of new items that may be taken for seen, such as 0.0001",
	}
	onFullParameter = Parameter{
		Key: "on_full", Want: `a text, such as "warn"`, Values: onFull,
		Usage: "what to do beyond the capacity: `grow`, warn or reject",
	}
)

// What happens beyond the capacity.
const (
	grow   = "grow"
	reject = "reject"
)

var onFull = []string{grow, "warn", reject}

// Grows reports whether a filter takes more memory beyond its bound, so that its error rate holds.
func (b Bound) Grows() bool { return b.OnFull == grow }

// Rejects reports whether a filter accepts no new items beyond its bound.
func (b Bound) Rejects() bool { return b.OnFull == reject }

// Bound implements Bounded.
func (b Bloom) Bound() Bound { return Bound{b.Capacity, b.ErrorRate, b.OnFull} }

// Complete implements Params.
func (b Bloom) Complete(d Defaults) Params {
	if b.Capacity == 0 {
		b.Capacity = d.Capacity
	}
	if b.ErrorRate == 0 {
		b.ErrorRate = d.ErrorRate
	}
	b.OnFull = cmp.Or(b.OnFull, grow)
	b.Canonical = b.Canonical.complete(d)
	return b
}

// Faults implements Params.
func (b Bloom) Faults() []Fault {
	var all []Fault
	for _, f := range []Fault{
		{"capacity", checkCapacity(b.Capacity)}, {"error_rate", checkErrorRate(b.ErrorRate)}, {"on_full", fault.OneOf(b.OnFull, onFull...)},
	} {
		if f.Text != "" {
			all = append(all, f)
		}
	}
	switch {
	case b.Layout == "":
	case b.Layout != layoutFingerprints:
		all = append(all, Fault{"layout", fmt.Sprintf("%q: want fingerprints, or nothing for a bit-map", b.Layout)})
	case b.OnFull != grow:
		all = append(all, Fault{"on_full", fmt.Sprintf("%q: want grow with layout: fingerprints, which has no bits that fill up", b.OnFull)})
	case b.Capacity > MaxPrints(b.ErrorRate) && b.Capacity <= maxCapacity:
		all = append(all, Fault{"capacity", fmt.Sprintf("%d: want %d at most with layout: fingerprints and an error rate of %v; the layout that is left out has no such bound", b.Capacity, MaxPrints(b.ErrorRate), b.ErrorRate)})
	}
	return append(all, b.Canonical.faults()...)
}

func checkCapacity(n uint64) string {
	if n < 1 || n > maxCapacity {
		return fmt.Sprintf("%d: want 1 to %d items", n, uint64(maxCapacity))
	}
	return ""
}

func checkErrorRate(r float64) string {
	if !(r >= minErrorRate && r <= maxErrorRate) {
		return fmt.Sprintf("%v: want %v to %v", r, minErrorRate, maxErrorRate)
	}
	return ""
}
