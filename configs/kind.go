package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Kind is what filters of one kind are made with. It is what a laptop and a client must
// know of a kind; how one works is the daemon's.
type Kind struct {
	Name string
	// Parameters are those that such filters have; the others of a Filter are zero.
	Parameters []Parameter
	// Lacks says why the other parameters mean nothing to it.
	Lacks string
	// Complete fills in what was left out. Nil: nothing is.
	Complete func(Filter, Defaults) Filter
	// Fixed tells that such filters take no more memory for an item more.
	Fixed bool
	// BitMap tells that such filters have a bit-map, which the archive keeps.
	BitMap bool
}

// Defaults are what the settings give filters that leave it out.
type Defaults struct {
	Capacity  uint64
	ErrorRate float64
}

// Defaults of these settings.
func (c Config) Defaults() Defaults { return Defaults{c.URINumScale, c.AcceptErrorRate} }

// Kinds lists the kinds that settings may name. The first is that of filters that name none.
func Kinds() []Kind {
	return []Kind{
		bloomKind(),
		timingKind(),
	}
}

// planned are kinds that documents name and this version has not.
var planned = []string{"exact", "simhash"}

// DefaultKind is that of filters that name none.
func DefaultKind() Kind { return Kinds()[0] }

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// HasBitMap tells whether filters of a kind have a bit-map, which the archive keeps.
func HasBitMap(kind string) bool {
	k, _ := KindOf(kind)
	return k.BitMap
}

// Expires tells whether items of filters of a kind expire.
func Expires(kind string) bool {
	k, _ := KindOf(kind)
	return k.Has("expire")
}

// KindNames lists the names of all kinds, in words: "a or b".
func KindNames() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return strings.Join(names, " or ")
}

// Parameter is one thing that filters of some kinds are made with.
type Parameter struct {
	Key   string // in settings and calls
	Value func(Filter) any
	// Check says what is wrong with the value of a filter whose kind has the parameter; ""
	// for nothing. Like is an example of a right one, which calls are told.
	Check      func(Filter) string
	Like       string
	WantNone   string           // what settings of other kinds are told to want
	Comparable func(Filter) any // as differences show it; nil: Value
}

func (p Parameter) shown(f Filter) any {
	if p.Comparable != nil {
		return p.Comparable(f)
	}
	return p.Value(f)
}

func (p Parameter) given(f Filter) bool { return !reflect.ValueOf(p.Value(f)).IsZero() }

// parameters are those of all kinds, in the order in which faults are told.
func parameters() []Parameter {
	var all []Parameter
	for _, k := range Kinds() {
		for _, p := range k.Parameters {
			if !slices.ContainsFunc(all, func(have Parameter) bool { return have.Key == p.Key }) {
				all = append(all, p)
			}
		}
	}
	return all
}

// FieldError is one thing that is wrong with what a filter is asked to be.
type FieldError struct {
	Field   string // id, name, kind, or the key of a parameter
	Msg     string // what calls are told
	Setting string // what the reader of settings is told
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

// CheckParameters lists what is wrong with a filter's kind and the parameters for it.
func (f Filter) CheckParameters() []*FieldError {
	kind, ok := KindOf(f.Kind)
	if !ok {
		wrong := fmt.Sprintf("%q: want %s", f.Kind, KindNames())
		setting := wrong
		if slices.Contains(planned, f.Kind) {
			setting = fmt.Sprintf("kind %s is not available in this version: want %s", f.Kind, KindNames())
		}
		return []*FieldError{{Field: "kind", Msg: wrong, Setting: setting}}
	}
	var wrong []*FieldError
	for _, p := range parameters() {
		if !kind.Has(p.Key) {
			if p.given(f) {
				wrong = append(wrong, kind.lacking(p, f))
			}
			continue
		}
		if text := p.Check(f); text != "" {
			e := &FieldError{Field: p.Key, Msg: text, Setting: text}
			if p.Like != "" {
				e.Msg += ", such as " + p.Like
			}
			wrong = append(wrong, e)
		}
	}
	return wrong
}

// Has tells whether filters of the kind have a parameter.
func (k Kind) Has(key string) bool {
	return slices.ContainsFunc(k.Parameters, func(p Parameter) bool { return p.Key == key })
}

// lacking is the fault of a filter that has a parameter of other kinds.
func (k Kind) lacking(p Parameter, f Filter) *FieldError {
	var others []string
	for _, other := range Kinds() {
		if other.Has(p.Key) {
			others = append(others, other.Name)
		}
	}
	of := strings.Join(others, " or ") + p.WantNone + ": " + k.Lacks
	value := fmt.Sprint(p.Value(f))
	if text, ok := p.Value(f).(string); ok {
		value = fmt.Sprintf("%q", text)
	}
	return &FieldError{
		Field:   p.Key,
		Msg:     "is for filters of the kind " + strings.Join(others, " or ") + ": " + k.Lacks,
		Setting: value + ": is for the kind " + of,
	}
}

// Differences say in which respects a filter that is made otherwise than asked for
// differs, with both values.
func (f Filter) Differences(asked Filter) string {
	var all []string
	note := func(what string, made, asked any) {
		if made != asked {
			all = append(all, fmt.Sprintf("%s is %v, not %v", what, made, asked))
		}
	}
	note("id", f.ID, asked.ID)
	note("kind", f.Kind, asked.Kind)
	if f.Kind == asked.Kind { // others have no parameters in common
		for _, p := range parameters() {
			note(p.Key, p.shown(f), p.shown(asked))
		}
	}
	return strings.Join(all, ", ")
}
