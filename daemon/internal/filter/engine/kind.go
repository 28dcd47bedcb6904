package engine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/canonical"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
)

// Spec describes a filter: its settings, with all defaults. It does not change while the
// filter exists.
type Spec = configs.Filter

// SpecError is returned for a filter that cannot be made as requested.
type SpecError = configs.FieldError

// KindError is returned for an operation that filters of a kind lack. It wraps Lacks.
type KindError struct {
	Filter, Kind string
	Lacks        error // such as ErrNoBitMap
}

func (e *KindError) Error() string {
	return fmt.Sprintf("filter %s: is of the kind %s, which %v", e.Filter, e.Kind, e.Lacks)
}

func (e *KindError) Unwrap() error { return e.Lacks }

// Others says in words which filters can do what this one cannot, such as "filters of the kind
// simhash": forget, reserve, compare or list.
func (e *KindError) Others() string {
	var names []string
	for _, k := range configs.Kinds() {
		has := map[error]bool{ErrForgetsNone: k.Forgets, ErrReservesNone: k.Reserves, ErrComparesNone: k.Texts, ErrListsNone: k.Forgets}
		if has[e.Lacks] {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return "no filters"
	case 1:
		return "filters of the kind " + names[0]
	}
	return "filters of the kinds " + strings.Join(names, " and ")
}

// What filters of a kind may lack.
var (
	ErrNoBitMap = errors.New("has no bit-map")
	// ErrForgetsNone: single items cannot be forgotten.
	ErrForgetsNone = errors.New("cannot forget single items")
)

// As returns set as a C, an interface that only the sets of some kinds implement, or a *KindError
// that wraps lacks.
func As[C any](spec Spec, set Set, lacks error) (C, error) {
	can, ok := set.(C)
	if !ok {
		return can, &KindError{Filter: spec.Name, Kind: spec.KindAndLayout(), Lacks: lacks}
	}
	return can, nil
}

// BitMap returns the filter's set as a BitMap, or a *KindError.
func (f *Filter) BitMap() (BitMap, error) { return As[BitMap](f.Spec, f.Set, ErrNoBitMap) }

// Forgetful returns the filter's set as a Forgetful, or a *KindError.
func (f *Filter) Forgetful() (Forgetful, error) {
	return As[Forgetful](f.Spec, f.Set, ErrForgetsNone)
}

// TakesItems returns a *KindError for a filter that takes documents.
func (f *Filter) TakesItems() error {
	if _, texts := f.Set.(Similar); texts {
		return &KindError{Filter: f.Name, Kind: f.Kind, Lacks: ErrKeepsTexts}
	}
	return nil
}

// BitMapHeader describes the empty bit-map of a new filter. One that grows may have pairs of bits if
// mayPair: see [bloom.NewGrowingHeader].
func BitMapHeader(spec Spec, b Identity, mayPair bool) (h bloom.Header, err error) {
	if bound := spec.Bound(); b.Format != nil && b.Format.Capacity == bound.Items && b.Format.ErrorRate == bound.ErrorRate && b.Format.Layers > 0 == bound.Grows() {
		h = *b.Format
		h.Layers, h.Seed, h.Created = min(h.Layers, 1), b.Seed, b.Created.UTC().Truncate(0)
	} else if bound.Grows() {
		h, err = bloom.NewGrowingHeader(bound.Items, bound.ErrorRate, mayPair, b.Seed, b.Created)
	} else {
		h, err = bloom.NewHeader(bound.Items, bound.ErrorRate, b.Seed, b.Created)
	}
	h.Generation = b.Generation
	return h, err
}

// FitsMemory refuses a bit-map that this machine could not hold in its memory: it would later use
// up the memory of all filters. A store that holds only a part of it need not call this.
func FitsMemory(spec Spec, h bloom.Header) error {
	bound := spec.Bound()
	if has := mapped.Machine(); has > 0 && h.Bytes() > has {
		return &SpecError{Field: "capacity", Msg: fmt.Sprintf("%d items at an error rate of %g take %.1f GB, and this machine has %.1f GB of memory", bound.Items, bound.ErrorRate, float64(h.Bytes())/1e9, float64(has)/1e9)}
	}
	return nil
}

// URIs says how the filter's URIs are normalized before they are hashed.
func (f *Filter) URIs() canonical.Rule { return f.uris }

func uris(spec Spec) canonical.Rule {
	c := spec.Canonical()
	form, err := canonical.ParseForm(cmp.Or(c.Canonical, configs.CanonicalNone))
	if err != nil { // specs were checked before
		panic(err)
	}
	if form != canonical.Crawl {
		return canonical.Rule{Form: form}
	}
	return canonical.Rule{Form: form, Drop: canonical.NewNames(c.DropNames())}
}

// sameMap reports whether bit-maps of the two specs can be the same.
func sameMap(s, o Spec) bool {
	made, asked := s.Bound(), o.Bound()
	return s.Kind == o.Kind && s.Canonical() == o.Canonical() && made.Items == asked.Items && made.ErrorRate == asked.ErrorRate && made.Grows() == asked.Grows()
}

// parameters are the attributes of a filter in the log.
func parameters(s Spec) slog.Attr {
	var all []any
	for _, m := range s.Members() {
		all = append(all, m.Key, m.Value)
	}
	return slog.Group("", all...)
}

func validate(s Spec) error {
	if text := configs.CheckName(s.Name); text != "" {
		return &SpecError{Field: "name", Msg: text}
	}
	if s.ID < 0 {
		return &SpecError{Field: "id", Msg: fmt.Sprintf("%d: want 1 or more", s.ID)}
	}
	for _, wrong := range s.CheckParameters() {
		return wrong
	}
	return nil
}
