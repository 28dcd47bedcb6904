// Package filterjson converts filters from and to JSON: the request that makes a filter, and the
// description of an existing one. Both follow from the parameters of the kinds.
//
// It makes and looks up no filters. Errors are of package problem, or have their code there.
package filterjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// expireKey is the parameter whose faults have the codes that those of a call's expire have, which
// callers know. Faults of all others are problem.InvalidFilter.
const expireKey = "expire"

// Asked is the body of a PUT: parameters of all kinds, by their keys. Each points to the decoded
// value of its type, for a time to its seconds, and for expire to its text; nil if it was not sent.
type Asked struct {
	// Like names the filter whose kind, parameters and secret it is to have; "": none.
	Like string

	id     int
	kind   string
	params map[string]any
}

// Decode reads the body of a PUT strictly. An empty one asks for nothing special.
func Decode(text []byte) (Asked, error) {
	asked := Asked{params: map[string]any{}}
	if len(bytes.TrimSpace(text)) == 0 {
		return asked, nil
	}
	into := map[string]member{
		"id":   {&asked.id, "a whole number, such as 1001"},
		"kind": {&asked.kind, `a text, such as "` + configs.DefaultKind().Name + `"`},
		"like": {&asked.Like, `the name of a filter, such as "uri"`},
	}
	for _, p := range configs.Parameters() {
		to := reflect.New(reflect.PointerTo(p.Type())).Interface() // so that 0 differs from an omitted value
		switch {
		case p.Key == expireKey:
			to = new(json.RawMessage)
		case isTime(p):
			to = new(*float64)
		}
		asked.params[p.Key], into[p.Key] = to, member{to, p.Want}
	}
	return asked, decodeObject(text, into)
}

// Spec returns the filter that the body asks for under a name. Omitted values come from the
// existing filter there, which may be that of Like (nil: none), or else from the defaults.
func (a *Asked) Spec(name string, there *engine.Filter, defaults configs.Defaults) (engine.Spec, error) {
	spec := engine.Spec{Name: name, Kind: a.kind}
	if there != nil && (a.kind == "" || a.kind == there.Kind) {
		spec = there.Spec // another kind shares nothing with it
	}
	if spec = spec.Complete(defaults); spec.Name != name {
		spec.Name, spec.ID = name, 0
	}
	if a.id != 0 {
		spec.ID = a.id
	}
	values, err := a.values(spec.Kind)
	if err != nil {
		return spec, err
	}
	spec, stray := spec.With(values)
	if stray != nil {
		return spec, stray
	}
	return spec.Complete(defaults), nil // omitted values may depend on given ones
}

// values returns the parameters that were sent for a filter of the kind.
func (a *Asked) values(kind string) (map[string]reflect.Value, error) {
	values := map[string]reflect.Value{}
	for key, to := range a.params {
		if text, ok := to.(*json.RawMessage); ok {
			expire, err := expireOf(kind, string(*text))
			if err != nil {
				return nil, err
			}
			if expire != 0 {
				values[key] = reflect.ValueOf(expire)
			}
			continue
		}
		value := reflect.ValueOf(to).Elem()
		if value.IsNil() {
			continue
		}
		p := configs.ParameterOf(key)
		if value = value.Elem(); value.IsZero() && value.Kind() != reflect.String {
			return nil, &engine.SpecError{Field: key, Msg: outside("0", p.Want)}
		}
		if isTime(p) {
			d, ok := engine.WholeMilliseconds(value.Float(), math.MaxInt64)
			if !ok {
				return nil, &engine.SpecError{Field: key, Msg: fmt.Sprintf("%.15g: want %s", value.Float(), p.Want)}
			}
			value = reflect.ValueOf(d)
		}
		values[key] = value
	}
	return values, nil
}

// outside describes a whole number that is too small, or too large for any parameter.
func outside(number, want string) string {
	bound := ", and more than 0"
	if number[0] != '-' && number != "0" {
		bound = ", and less than that"
	}
	return number + ": want " + want + bound
}

func isTime(p configs.Parameter) bool { return p.Type() == reflect.TypeFor[time.Duration]() }

// expireOf returns the time that was sent as expire for a filter of the kind; 0: none was.
func expireOf(kind, text string) (time.Duration, error) {
	if text == "" || text == "null" {
		return 0, nil
	}
	if of, known := configs.KindOf(kind); known && !of.Has(expireKey) {
		return 0, &problem.Error{Code: problem.ExpireNotSupported, Detail: expireKey + " is for filters of the kind " + configs.KindsWith(expireKey)}
	}
	seconds, err := items.Seconds(text)
	if err != nil {
		return 0, err
	}
	expire, err := engine.Expire(seconds)
	if err != nil {
		return 0, &problem.Error{Code: items.ExpireInvalid, Detail: err.Error()}
	}
	return expire, nil
}

// Text is a filter as callers see it, in JSON: its parameters, and the statistics of its set.
func Text(f *engine.Filter) ([]byte, error) {
	st := f.Stats()
	all := append([]configs.Member{{Key: "id", Value: f.ID}, {Key: "name", Value: f.Name}, {Key: "kind", Value: f.Kind}}, f.Members()...)
	add := func(key string, value any) { all = append(all, configs.Member{Key: key, Value: value}) }
	_, bits := f.Set.(engine.BitMap)
	if bits {
		add("items_estimate", st.Items)
		add("fill_ratio", st.Fill)
		add("fpr_estimate", st.FPR)
	} else {
		add("items", st.Items)
	}
	add("bytes", st.Bytes)
	add("generation", st.Generation)
	if layered, ok := f.Set.(engine.Layered); ok {
		add("layers", layers(layered))
	}
	switch {
	case bits && st.LastWriteback.IsZero():
		add("last_writeback", nil)
	case bits:
		add("last_writeback", st.LastWriteback)
	}
	return configs.AppendObject(nil, all)
}

// layers describes the layers of a growing filter for callers.
func layers(f engine.Layered) (all []client.FilterLayer) {
	for _, l := range f.Layers() {
		all = append(all, client.FilterLayer{
			Capacity: l.Header.Capacity, ErrorRate: l.Header.ErrorRate, Bytes: l.Header.Bytes(),
			ItemsEstimate: l.Fill.Items, FillRatio: l.Fill.Ratio, FPREstimate: l.Fill.FPR,
		})
	}
	return all
}

// Info is a filter as callers see it.
func Info(f *engine.Filter) (client.FilterInfo, error) {
	var info client.FilterInfo
	text, err := Text(f)
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	return info, err
}
