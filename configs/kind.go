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

// Kind describes what filters of one kind are made with. It is what a laptop and a client
// must know about a kind; how it works is known to the daemon only.
type Kind struct {
	Name string
	// Params are the parameters of the kind, without values. The fields of the struct with the
	// tag yaml are the parameters; their types are uint64, float64, string and time.Duration.
	Params Params
	// Parameters describe them for people.
	Parameters []Parameter
	// Lacks says why the parameters of other kinds mean nothing to it.
	Lacks string
	// BitMap says that such filters have a bit-map, which the archive keeps.
	BitMap bool
	// Texts says that such filters are asked about texts and not about items.
	Texts bool
	// Hashes says that such filters have the hash of each item, until it is forgotten.
	Hashes bool
	// Forgets says that single items can be forgotten, Reserves that they can be reserved.
	Forgets, Reserves bool
	// Local says that such filters are kept with store: embedded only.
	Local bool
	// Commands is the family of Redis commands that such filters answer to, "" for none, and
	// MadeByCommands says that the first one for a name that does not exist makes such a filter.
	Commands       string
	MadeByCommands bool
}

// Families of Redis commands: those of RedisBloom (BF.ADD), and those of sets (SADD).
const (
	CommandsBF  = "bf"
	CommandsSet = "set"
)

// Params are what filters of one kind are made with besides id and name: a struct of that
// kind, not a pointer to one, so that two are the same if they are equal. What only some of
// them have is found by a type assertion: Bounded, Expiring.
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

// Bound is how many items a filter is made for; the zero value is for filters without one.
type Bound struct {
	Items     uint64
	ErrorRate float64 // up to Items
	OnFull    string  // beyond Items: grow, warn or reject
}

// Expiring are the parameters of filters whose items expire.
type Expiring interface {
	// ExpireAfter returns how long items last if the call does not say so; 0: every call must.
	ExpireAfter() time.Duration
}

// Defaults are the values in the settings for filters that leave them out.
type Defaults struct {
	Capacity      uint64
	ErrorRate     float64
	CanonicalDrop string
}

// Defaults returns the defaults of these settings.
func (c Config) Defaults() Defaults {
	return Defaults{c.URINumScale, c.AcceptErrorRate, joinDrop(c.CanonicalDrop)}
}

// kinds are all of them, which nobody changes. The first is for filters that name none.
var kinds = []Kind{
	bloomKind,
	timingKind,
	exactKind,
	simhashKind,
	scalingKind,
}

// Kinds lists the kinds that settings may name.
func Kinds() []Kind { return slices.Clone(kinds) }

// DefaultKind returns the kind of filters that name none.
func DefaultKind() Kind { return kinds[0] }

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	for _, k := range kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
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
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return strings.Join(names, " or ")
}

// Parameter describes for people one thing that filters of some kinds are made with.
type Parameter struct {
	Key      string   // in settings and calls; a flag has - for _
	Want     string   // what a call must send
	Like     string   // an example of a valid value, which calls are told; "": none
	Usage    string   // of the flag
	Values   []string // all possible values, if they are few
	WantNone string   // what settings of other kinds are told to want
	Of       string   // the parameter that it is a detail of: if that changes, it is reset; "": none
	Why      string   // why it means nothing to other kinds; "": their Lacks
	Optional bool     // calls show it only if it is set
	Unset    string   // what people are shown for one that is not set, if it is not its zero value
}

// Type returns the type of the parameter's values.
func (p Parameter) Type() reflect.Type {
	for _, k := range kinds {
		if v, ok := valueOf(k.Params, p.Key); ok {
			return v.Type()
		}
	}
	panic("no kind has the parameter " + p.Key) // a mistake in a Kind
}

// Parameters returns those of all kinds, in the order in which faults are reported.
func Parameters() []Parameter {
	var all []Parameter
	for _, k := range kinds {
		for _, p := range k.Parameters {
			if !slices.ContainsFunc(all, func(have Parameter) bool { return have.Key == p.Key }) {
				all = append(all, p)
			}
		}
	}
	return all
}

// ParameterOf returns the parameter with that key, which some kind must have.
func ParameterOf(key string) Parameter {
	all := Parameters()
	return all[slices.IndexFunc(all, func(p Parameter) bool { return p.Key == key })]
}

// Has tells whether filters of the kind have a parameter.
func (k Kind) Has(key string) bool {
	_, ok := valueOf(k.Params, key)
	return ok
}

// valueOf returns the value of a parameter.
func valueOf(p Params, key string) (v reflect.Value, ok bool) {
	if p == nil {
		return v, false
	}
	return strict.FieldByKey(reflect.ValueOf(p), key)
}

// change returns a copy of p whose fields set has changed.
func change(p Params, set func(copied reflect.Value)) Params {
	v := reflect.New(reflect.TypeOf(p)).Elem()
	v.Set(reflect.ValueOf(p))
	set(v)
	return v.Interface().(Params)
}

// KindsWith lists the kinds that have a parameter, in words.
func KindsWith(key string) string {
	var names []string
	for _, k := range kinds {
		if k.Has(key) {
			names = append(names, k.Name)
		}
	}
	return strings.Join(names, " or ")
}

// lacking returns the fault of a filter that is given a parameter of other kinds.
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
