package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/configs/strict"
)

// Member is one parameter of a filter as a member of an object.
type Member struct {
	Key   string
	Value any
}

// Members returns the filter's parameters as calls show them, in the order of its kind: a
// time is in seconds, nil for none.
func (f Filter) Members() []Member { return f.members(false) }

// members returns the same; with all, also optional parameters that are not set.
func (f Filter) members(all bool) []Member {
	var members []Member
	f.each(func(key string, v reflect.Value) {
		value := v.Interface()
		if d, ok := value.(time.Duration); ok {
			value = d.Seconds()
			if d == 0 {
				value = nil
			}
		}
		if all || !v.IsZero() || !ParameterOf(key).Optional {
			members = append(members, Member{key, value})
		}
	})
	return members
}

// each calls visit with every parameter.
func (f Filter) each(visit func(key string, v reflect.Value)) {
	if f.Params == nil {
		return
	}
	v := reflect.ValueOf(f.Params)
	for _, field := range strict.Keyed(v.Type()) {
		visit(field.Tag.Get("yaml"), v.FieldByIndex(field.Index))
	}
}

// storedKey returns the key of a parameter in stores and in the archive, which keep a time
// in milliseconds.
func storedKey(key string, t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return key + "_ms"
	}
	return key
}

// Stored returns the filter's parameters as stores and the archive keep them, without zero
// values: whole numbers, also of milliseconds, as int64.
func (f Filter) Stored() []Member {
	var all []Member
	f.each(func(key string, v reflect.Value) {
		m := Member{storedKey(key, v.Type()), v.Interface()}
		switch value := m.Value.(type) {
		case uint64:
			m.Value = int64(value)
		case time.Duration:
			m.Value = value.Milliseconds()
		}
		if !reflect.ValueOf(m.Value).IsZero() {
			all = append(all, m)
		}
	})
	return all
}

// WithStored returns the filter with the parameters that Stored returned, which are in kept,
// perhaps beside other members. Numbers may be of any type, or a json.Number. A filter of a
// kind that is not known has no parameters.
func (f Filter) WithStored(kept map[string]any) (Filter, error) {
	kind, ok := KindOf(f.Kind)
	if !ok {
		return f, nil
	}
	var faults []error
	f.Params = change(kind.Params, func(v reflect.Value) {
		for _, field := range strict.Keyed(v.Type()) {
			key := storedKey(field.Tag.Get("yaml"), field.Type)
			if value, there := kept[key]; there {
				if err := setStored(v.FieldByIndex(field.Index), value); err != nil {
					faults = append(faults, fmt.Errorf("%s: %w", key, err))
				}
			}
		}
	})
	return f, errors.Join(faults...)
}

// setStored sets v from a value as it is stored.
func setStored(v reflect.Value, value any) error {
	bad := fmt.Errorf("found %v, want %s", value, strict.Wanted(v))
	switch value := value.(type) {
	case string:
		if v.Kind() != reflect.String {
			return bad
		}
		v.SetString(value)
		return nil
	case json.Number, int, int32, int64, uint64, float64:
		text := fmt.Sprint(value)
		if v.Kind() == reflect.Float64 {
			n, err := strconv.ParseFloat(text, 64)
			v.SetFloat(n)
			return err
		}
		n, err := strict.ParseWhole(text)
		switch {
		case err != nil:
			return bad
		case v.Kind() == reflect.Uint64 && n >= 0:
			v.SetUint(uint64(n))
			return nil
		case v.Type() == reflect.TypeFor[time.Duration]() && n >= 0 && n <= math.MaxInt64/int64(time.Millisecond):
			v.SetInt(n * int64(time.Millisecond))
			return nil
		}
	}
	return bad
}

// AppendJSON appends the JSON object in which stores keep a filter, without an empty name.
// Further members, if any, follow as they are.
func (f Filter) AppendJSON(b []byte, more ...Member) ([]byte, error) {
	all := []Member{{"id", f.ID}}
	if f.Name != "" {
		all = append(all, Member{"name", f.Name})
	}
	all = append(append(append(all, Member{"kind", f.Kind}), f.Stored()...), more...)
	return AppendObject(b, all)
}

// AppendObject appends a JSON object with members in their order.
func AppendObject(b []byte, members []Member) ([]byte, error) {
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		value, err := json.Marshal(m.Value)
		if err != nil {
			return nil, err
		}
		b = append(append(strconv.AppendQuote(b, m.Key), ':'), value...)
	}
	return append(b, '}'), nil
}

// ParseJSON reads what AppendJSON has written, in this or an earlier version. If strict, a
// member that the filter's kind does not have is an error; otherwise it is left to the caller.
func ParseJSON(text []byte, strict bool) (Filter, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var kept map[string]any
	if err := d.Decode(&kept); err != nil {
		return Filter{}, err
	}
	var plain struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &plain); err != nil { // also if something follows the object
		return Filter{}, err
	}
	f, err := Filter{ID: plain.ID, Name: plain.Name, Kind: plain.Kind}.WithStored(kept)
	if err != nil || !strict || f.Params == nil {
		return f, err
	}
	for _, key := range []string{"id", "name", "kind"} {
		delete(kept, key)
	}
	f.each(func(key string, v reflect.Value) { delete(kept, storedKey(key, v.Type())) })
	for key := range kept {
		return f, fmt.Errorf("unknown member %q", key)
	}
	return f, nil
}
