package engine

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// The kinds of filters. What a kind is asked for in a Spec is checked here; what it can
// do is said by the interfaces that its Set has.
const (
	Bloom  = "bloom"  // a bit-map: BitMap
	Timing = "timing" // keys with deadlines: Timed
)

// MaxExpire is the longest time that an item can be asked to be remembered: ten years.
const MaxExpire = 315_360_000 * time.Second

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// KindError is returned for what filters of a kind cannot do.
type KindError struct{ Filter, Kind string }

func (e *KindError) Error() string {
	return fmt.Sprintf("filter %s: is of the kind %s, which has no bit-map", e.Filter, e.Kind)
}

// BitMap is the filter's set as one, or a *KindError.
func (f *Filter) BitMap() (BitMap, error) { return bitMapOf(f.Spec, f.Set) }

func bitMapOf(spec Spec, set Set) (BitMap, error) {
	bits, ok := set.(BitMap)
	if !ok {
		return nil, &KindError{Filter: spec.Name, Kind: spec.Kind}
	}
	return bits, nil
}

// hasBitMap tells whether sets of such filters are BitMaps, which the archive keeps.
func (s Spec) hasBitMap() bool { return s.Kind == Bloom }

// BitMapHeader describes the empty bit-map of a new filter. One that this machine could
// not hold in its memory is refused: it would take all of it, later and for all filters.
func BitMapHeader(spec Spec, b Birth) (bloom.Header, error) {
	h, err := bloom.NewHeader(spec.Capacity, spec.ErrorRate, b.Seed, b.Created)
	if has := bloom.Memory(); err == nil && has > 0 && h.Bytes() > has {
		err = &SpecError{"capacity", fmt.Sprintf("%d items at an error rate of %g take %.1f GB, and this machine has %.1f GB of memory", spec.Capacity, spec.ErrorRate, float64(h.Bytes())/1e9, float64(has)/1e9)}
	}
	h.Generation = b.Generation
	return h, err
}

// sameMap tells whether bit-maps of the two specs can be the same.
func (s Spec) sameMap(o Spec) bool {
	return s.Kind == o.Kind && s.Capacity == o.Capacity && s.ErrorRate == o.ErrorRate
}

// differences say in which parameters a filter that is made otherwise than asked for
// differs, with both values.
func (s Spec) differences(asked Spec) string {
	var all []string
	note := func(parameter string, made, asked any) {
		if made != asked {
			all = append(all, fmt.Sprintf("%s is %v, not %v", parameter, made, asked))
		}
	}
	note("id", s.ID, asked.ID)
	note("kind", s.Kind, asked.Kind)
	if s.Kind == asked.Kind { // others have no parameters in common
		note("capacity", s.Capacity, asked.Capacity)
		note("error_rate", s.ErrorRate, asked.ErrorRate)
		note("on_full", s.OnFull, asked.OnFull)
		note("expire", s.Expire.Seconds(), asked.Expire.Seconds())
	}
	return strings.Join(all, ", ")
}

// parameters are what the log says of a filter.
func (s Spec) parameters() slog.Attr {
	if s.Kind == Timing {
		return slog.Duration("expire", s.Expire)
	}
	return slog.Group("", "capacity", s.Capacity, "error_rate", s.ErrorRate)
}

func (s *Spec) validate() error {
	switch {
	case !namePattern.MatchString(s.Name):
		return &SpecError{"name", fmt.Sprintf("%q: want a letter or _, then letters, digits, _ . -, 64 at most", s.Name)}
	case s.ID < 0:
		return &SpecError{"id", fmt.Sprintf("%d: want 1 or more", s.ID)}
	}
	switch s.Kind {
	case Bloom:
		return s.validateBloom()
	case Timing:
		return s.validateTiming()
	}
	return &SpecError{"kind", fmt.Sprintf("%q: want bloom or timing", s.Kind)}
}

func (s *Spec) validateBloom() error {
	switch {
	case s.OnFull != "warn" && s.OnFull != "reject":
		return &SpecError{"on_full", fmt.Sprintf("%q: want warn or reject", s.OnFull)}
	case s.Expire != 0:
		return &SpecError{"expire", "is for filters of the kind timing: items of a bloom filter do not expire"}
	}
	if s.Capacity < 1 || s.Capacity > bloom.MaxCapacity {
		return &SpecError{"capacity", fmt.Sprintf("%d: want 1 to %d items, such as 10000000", s.Capacity, uint64(bloom.MaxCapacity))}
	}
	if !(s.ErrorRate >= bloom.MinErrorRate && s.ErrorRate <= bloom.MaxErrorRate) {
		return &SpecError{"error_rate", fmt.Sprintf("%v: want %v to %v, such as 0.0001", s.ErrorRate, bloom.MinErrorRate, bloom.MaxErrorRate)}
	}
	return nil
}

func (s *Spec) validateTiming() error {
	const not = "is for filters of the kind bloom: a timing filter is exact, and has no capacity"
	switch {
	case s.Capacity != 0:
		return &SpecError{"capacity", not}
	case s.ErrorRate != 0:
		return &SpecError{"error_rate", not}
	case s.OnFull != "":
		return &SpecError{"on_full", not}
	case s.Expire < 0 || s.Expire > MaxExpire:
		return &SpecError{"expire", fmt.Sprintf("%v s: want more than 0, and at most %.0f (ten years)", s.Expire.Seconds(), MaxExpire.Seconds())}
	case s.Expire%time.Millisecond != 0:
		return &SpecError{"expire", fmt.Sprintf("%v: want whole milliseconds", s.Expire)}
	}
	return nil
}
