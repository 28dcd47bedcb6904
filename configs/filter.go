package configs

import (
	"fmt"
	"reflect"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs/strict"
)

// Filter is the definition of a filter. In the settings, values that are left out are the
// daemon's defaults; everywhere else it is complete. It is flat wherever it is written: its
// parameters stand beside id, name and kind. Two are the same filter if they are equal.
type Filter struct {
	// ID is the number that requests may use in place of the name, 1 or more, unique.
	// 0: the daemon chooses one.
	ID int `yaml:"id"`
	// Name is unique: a letter or _, then letters, digits, _ . : -, at most 64 in all.
	Name string `yaml:"name"`
	// Kind is how items are remembered, one of Kinds. "": the first of them.
	Kind string `yaml:"kind"`
	// Params are the parameters of the kind. Nil: none was given, or the kind is not known.
	Params Params
}

// Bound returns how many items the filter is made for; zero: any number.
func (f Filter) Bound() Bound {
	if p, ok := f.Params.(Bounded); ok {
		return p.Bound()
	}
	return Bound{}
}

// Expire returns how long an item is remembered if its call does not say so; 0: every call
// must, or items do not expire.
func (f Filter) Expire() time.Duration {
	if p, ok := f.Params.(Expiring); ok {
		return p.ExpireAfter()
	}
	return 0
}

// Complete fills in what was left out. A kind that is not known stays as it is.
func (f Filter) Complete(d Defaults) Filter {
	if f.Kind == "" {
		f.Kind = DefaultKind().Name
	}
	if kind, ok := KindOf(f.Kind); ok {
		if f.Params == nil {
			f.Params = kind.Params
		}
		f.Params = f.Params.Complete(d)
	}
	return f
}

// With returns the filter with other values of parameters, by their keys and of their types.
// A zero value counts as none. The error is for a parameter that filters of the kind lack.
func (f Filter) With(values map[string]reflect.Value) (Filter, *FieldError) {
	kind, ok := KindOf(f.Kind)
	if !ok {
		return f, nil // CheckParameters reports it
	}
	if f.Params == nil {
		f.Params = kind.Params
	}
	for _, p := range Parameters() {
		value, given := values[p.Key]
		switch {
		case !given || value.IsZero():
		case !kind.Has(p.Key):
			return f, kind.lacking(p, value)
		default:
			f.Params = change(f.Params, func(v reflect.Value) {
				field, _ := strict.FieldByKey(v, p.Key)
				if !field.Equal(value) {
					clearDetails(v, p.Key)
				}
				field.Set(value)
			})
		}
	}
	return f, nil
}

// clearDetails clears the parameters that are details of one that changes. Details that are
// given are set afterwards.
func clearDetails(params reflect.Value, changed string) {
	for _, p := range Parameters() {
		if field, ok := strict.FieldByKey(params, p.Key); ok && p.Of == changed {
			field.SetZero()
		}
	}
}

// FieldError is one fault in what is requested for a filter.
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
		return []*FieldError{{Field: "kind", Msg: wrong, Setting: wrong}}
	}
	if reflect.TypeOf(f.Params) != reflect.TypeOf(kind.Params) {
		text := fmt.Sprintf("%s: its parameters are those of another kind", kind.Name)
		return []*FieldError{{Field: "kind", Msg: text, Setting: text}}
	}
	var wrong []*FieldError
	for _, fault := range f.Params.Faults() {
		e := &FieldError{Field: fault.Key, Msg: fault.Text, Setting: fault.Text}
		for _, p := range kind.Parameters {
			if p.Key == fault.Key && p.Like != "" {
				e.Msg += ", such as " + p.Like
			}
		}
		wrong = append(wrong, e)
	}
	return wrong
}

// Differences says how an existing filter differs from the one that is asked for, with
// both values.
func (f Filter) Differences(asked Filter) string {
	text := ""
	note := func(what string, made, asked any) {
		if made != asked {
			made, asked = orNone(made), orNone(asked)
			if text != "" {
				text += ", "
			}
			text += fmt.Sprintf("%s is %v, not %v", what, made, asked)
		}
	}
	note("id", f.ID, asked.ID)
	note("kind", f.Kind, asked.Kind)
	if f.Kind == asked.Kind { // others have no parameters in common
		theirs := map[string]any{}
		for _, m := range asked.members(true) {
			theirs[m.Key] = m.Value
		}
		for _, m := range f.members(true) {
			note(m.Key, shown(m.Key, m.Value), shown(m.Key, theirs[m.Key]))
		}
	}
	return text
}

// orNone returns what people are shown for a value that may be an empty text.
func orNone(v any) any {
	if v == "" {
		return "none"
	}
	return v
}

// shown returns what people are shown for the value of a parameter, which may be a missing time.
func shown(key string, v any) any {
	switch unset := ParameterOf(key).Unset; {
	case v == nil:
		return 0
	case unset != "" && reflect.ValueOf(v).IsZero():
		return unset
	}
	return v
}

// NotIn says what is wrong with keeping the filter in a store; nil: nothing.
func (f Filter) NotIn(store string) *FieldError {
	kind, _ := KindOf(f.Kind)
	switch {
	case store == StoreEmbedded:
		if f.Fingerprints() {
			wrong := fmt.Sprintf("%q: is for store: redis: leave it out with store: %s", layoutFingerprints, store)
			return &FieldError{Field: "layout", Msg: wrong, Setting: wrong}
		}
	case kind.Local:
		return &FieldError{
			Field: "kind", Msg: fmt.Sprintf("%q: filters of this kind are kept with store: embedded only, and not in %s", f.Kind, store),
			Setting: fmt.Sprintf("%q: is for store: embedded: want another kind with store: %s", f.Kind, store),
		}
	case f.DigestBits() < longDigest:
		return &FieldError{
			Field: "digest", Msg: fmt.Sprintf("%d: such filters are kept with store: embedded only, and not in %s, which has a form of its own", f.DigestBits(), store),
			Setting: fmt.Sprintf("%d: is for store: embedded: want %d with store: %s", f.DigestBits(), longDigest, store),
		}
	}
	return nil
}

// MemberKeys returns the keys of a filter in the settings, those of all kinds.
func (Filter) MemberKeys() []string {
	keys := strict.Keys(reflect.TypeFor[Filter]())
	for _, p := range Parameters() {
		keys = append(keys, p.Key)
	}
	return keys
}

// ReadMembers reads a filter of the settings.
func (f *Filter) ReadMembers(m *strict.Members) {
	values := map[string]reflect.Value{} // of parameters
	m.Each(func(key string, read func(into reflect.Value)) {
		field, ok := strict.FieldByKey(reflect.ValueOf(f).Elem(), key)
		if !ok {
			field = reflect.New(Parameter{Key: key}.Type()).Elem()
			values[key] = field
		}
		read(field)
	})
	name := f.Kind
	if name == "" {
		name = DefaultKind().Name
	}
	kind, ok := KindOf(name)
	if !ok {
		return
	}
	f.Params = kind.Params
	for _, p := range Parameters() {
		value, given := values[p.Key]
		switch {
		case !given:
		case kind.Has(p.Key):
			f.Params = change(f.Params, func(v reflect.Value) {
				field, _ := strict.FieldByKey(v, p.Key)
				field.Set(value)
			})
		case !value.IsZero():
			m.Fault(p.Key, kind.lacking(p, value).Setting)
		}
	}
}

// MarshalYAML shows a filter of the settings, with the parameters of its kind.
func (f Filter) MarshalYAML() (any, error) {
	shown := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, value any) error {
		var k, v yaml.Node
		err := k.Encode(key)
		if err == nil {
			err = v.Encode(value)
		}
		shown.Content = append(shown.Content, &k, &v)
		return err
	}
	plain := reflect.ValueOf(f)
	for _, field := range strict.Keyed(plain.Type()) {
		if err := add(field.Tag.Get("yaml"), plain.FieldByIndex(field.Index).Interface()); err != nil {
			return nil, err
		}
	}
	if f.Params != nil {
		params := reflect.ValueOf(f.Params)
		for _, field := range strict.Keyed(params.Type()) {
			if err := add(field.Tag.Get("yaml"), params.FieldByIndex(field.Index).Interface()); err != nil {
				return nil, err
			}
		}
	}
	return shown, nil
}
