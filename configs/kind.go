package configs

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs/strict"
)

// Kind is what filters of one kind are made with. It is what a laptop and a client must
// know of a kind; how one works is the daemon's.
type Kind struct {
	Name string
	// Params are those of the kind, without a value. The fields of the struct with the tag
	// yaml are the parameters; they are of the types uint64, float64, string, time.Duration.
	Params Params
	// Parameters are what people are told of them.
	Parameters []Parameter
	// Lacks says why the parameters of other kinds mean nothing to it.
	Lacks string
	// Fixed tells that such filters take no more memory for an item more.
	Fixed bool
	// BitMap tells that such filters have a bit-map, which the archive keeps.
	BitMap bool
	// Texts tells that such filters are asked about texts and not about items.
	Texts bool
	// Hashes tells that such filters have the hash of each item, until it is forgotten.
	Hashes bool
	// Local tells that such filters are kept with store: embedded only.
	Local bool
}

// Params are what filters of one kind are made with beside id and name: a struct of that
// kind, not a pointer to one, so that two are the same if they are equal. What only some can
// tell is asked for by a type assertion: Bounded, Expiring.
type Params interface {
	// Complete fills in what was left out.
	Complete(Defaults) Params
	// Faults lists what is wrong with them, once they are complete.
	Faults() []Fault
}

// Fault is what is wrong with the value of one parameter.
type Fault struct{ Key, Text string }

// Bounded are the parameters of filters that are made for a number of items.
type Bounded interface{ Bound() Bound }

// Bound is how many items a filter is made for; the zero value is that of others.
type Bound struct {
	Items     uint64
	ErrorRate float64 // up to Items
	OnFull    string  // beyond Items: grow, warn or reject
}

// Expiring are the parameters of filters whose items expire.
type Expiring interface {
	// ExpireAfter is after how long, where the call does not say; 0: every call must.
	ExpireAfter() time.Duration
}

// Defaults are what the settings give filters that leave it out.
type Defaults struct {
	Capacity      uint64
	ErrorRate     float64
	CanonicalDrop string
}

// Defaults of these settings.
func (c Config) Defaults() Defaults {
	return Defaults{c.URINumScale, c.AcceptErrorRate, joinDrop(c.CanonicalDrop)}
}

// Kinds lists the kinds that settings may name. The first is that of filters that name none.
func Kinds() []Kind {
	return []Kind{
		bloomKind(),
		timingKind(),
		exactKind(),
		simhashKind(),
	}
}

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

// TakesTexts tells whether filters of a kind are asked about texts and not about items.
func TakesTexts(kind string) bool {
	k, _ := KindOf(kind)
	return k.Texts
}

// HasHashes tells whether filters of a kind have the hash of each item, until it is forgotten.
func HasHashes(kind string) bool {
	k, _ := KindOf(kind)
	return k.Hashes
}

// Expires tells whether items of filters of a kind expire.
func Expires(kind string) bool {
	k, _ := KindOf(kind)
	_, expiring := k.Params.(Expiring)
	return expiring
}

// KindNames lists the names of all kinds, in words: "a or b".
func KindNames() string {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return strings.Join(names, " or ")
}

// Parameter is what people are told of one thing that filters of some kinds are made with.
type Parameter struct {
	Key      string   // in settings and calls; of a flag with - for _
	Want     string   // what a call is to send
	Like     string   // an example of a right value, which calls are told; "": none
	Usage    string   // of the flag
	Values   []string // all that there are, where they are few
	WantNone string   // what settings of other kinds are told to want
	Of       string   // the parameter that it is a detail of: where that changes, it is reset; "": none
	Why      string   // why it means nothing to other kinds; "": what those lack
	Optional bool     // calls show it only where it says something
}

// Type is that of the parameter's values.
func (p Parameter) Type() reflect.Type {
	for _, k := range Kinds() {
		if v, ok := valueOf(k.Params, p.Key); ok {
			return v.Type()
		}
	}
	panic("no kind has the parameter " + p.Key) // a mistake in a Kind
}

// Parameters are those of all kinds, in the order in which faults are told.
func Parameters() []Parameter {
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

// ParameterOf is the one with that key, which some kind must have.
func ParameterOf(key string) Parameter {
	all := Parameters()
	return all[slices.IndexFunc(all, func(p Parameter) bool { return p.Key == key })]
}

// Has tells whether filters of the kind have a parameter.
func (k Kind) Has(key string) bool {
	_, ok := valueOf(k.Params, key)
	return ok
}

// valueOf is the value of a parameter.
func valueOf(p Params, key string) (v reflect.Value, ok bool) {
	if p == nil {
		return v, false
	}
	return strict.FieldByKey(reflect.ValueOf(p), key)
}

// change is p after set has set the fields of a copy of it.
func change(p Params, set func(copied reflect.Value)) Params {
	v := reflect.New(reflect.TypeOf(p)).Elem()
	v.Set(reflect.ValueOf(p))
	set(v)
	return v.Interface().(Params)
}

// KindsWith lists the kinds that have a parameter, in words.
func KindsWith(key string) string {
	var names []string
	for _, k := range Kinds() {
		if k.Has(key) {
			names = append(names, k.Name)
		}
	}
	return strings.Join(names, " or ")
}

// lacking is the fault of a filter that is given a parameter of other kinds.
func (k Kind) lacking(p Parameter, value reflect.Value) *FieldError {
	text := fmt.Sprint(value.Interface())
	if value.Kind() == reflect.String {
		text = fmt.Sprintf("%q", text)
	}
	others, why := KindsWith(p.Key), cmp.Or(p.Why, k.Lacks)
	return &FieldError{
		Field:   p.Key,
		Msg:     "is for filters of the kind " + others + ": " + why,
		Setting: text + ": is for the kind " + others + p.WantNone + ": " + why,
	}
}
