package configs

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The text is the same as in every version so far, and reading it back gives the same filter.
func TestFilterAsStored(t *testing.T) {
	for want, f := range map[string]Filter{
		`{"id":1,"name":"uri","kind":"bloom","capacity":1000,"error_rate":0.0001,"on_full":"warn"}`: {
			ID: 1, Name: "uri", Kind: "bloom", Params: Bloom{Capacity: 1000, ErrorRate: 0.0001, OnFull: "warn"}},
		`{"id":7,"name":"news","kind":"timing","expire_ms":1500}`: {ID: 7, Name: "news", Kind: "timing", Params: Timing{Expire: 1500 * time.Millisecond}},
		`{"id":2,"kind":"bloom","capacity":5,"canonical":"crawl","canonical_drop":"a,b*"}`: {
			ID: 2, Kind: "bloom", Params: Bloom{Capacity: 5, Canonical: Canonical{CanonicalCrawl, "a,b*"}}},
		`{"id":8,"kind":"timing"}`:                {ID: 8, Kind: "timing", Params: Timing{}},
		`{"id":9,"name":"later","kind":"cuckoo"}`: {ID: 9, Name: "later", Kind: "cuckoo"},
	} {
		text, err := f.AppendJSON(nil)
		if err != nil || string(text) != want {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
		for _, strict := range []bool{true, false} {
			if back, err := ParseJSON(text, strict); err != nil || back != f {
				t.Errorf("%s: read back %+v, %v", text, back, err)
			}
		}
	}
	f := Filter{ID: 8, Kind: "timing", Params: Timing{Expire: time.Second}}
	text, err := f.AppendJSON([]byte("x"), Member{"map", "A\"B"}, Member{"created", int64(5)})
	if want := `x{"id":8,"kind":"timing","expire_ms":1000,"map":"A\"B","created":5}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	if back, err := ParseJSON(text[1:], false); err != nil || back != f {
		t.Errorf("members of somebody else: %+v, %v", back, err)
	}
}

func TestFilterNotAsStored(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":1,"kind":"timing","capacity":5}`:       `unknown member "capacity"`,
		`{"id":1,"kind":"bloom","expire":5}`:          `unknown member "expire"`,
		`{"id":1,"kind":"timing","expire_ms":"5"}`:    "expire_ms: found 5, want a time",
		`{"id":1,"kind":"timing","expire_ms":-5}`:     "expire_ms: found -5",
		`{"id":1,"kind":"timing","expire_ms":1e18}`:   "expire_ms: found 1e18",
		`{"id":1,"kind":"bloom","capacity":1.5}`:      "capacity: found 1.5, want a whole number",
		`{"id":1,"kind":"bloom","capacity":-1}`:       "capacity: found -1",
		`{"id":1,"kind":"bloom","capacity":null}`:     "capacity: found <nil>",
		`{"id":1,"kind":"bloom","on_full":true}`:      "on_full: found true, want a text",
		`{"id":1,"kind":"bloom","error_rate":"0.1"}`:  "error_rate: found 0.1, want a number",
		`{"id":"1","kind":"bloom"}`:                   "cannot unmarshal string",
		`[]`:                                          "cannot unmarshal array",
		`{"id":1,"kind":"bloom"`:                      "unexpected EOF",
		`{"id":1,"kind":"bloom"}{"id":2,"kind":"no"}`: "after top-level value",
	} {
		if f, err := ParseJSON([]byte(text), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", text, f, err, want)
		}
	}
}

// For every kind, users are told of exactly the parameters that it has, and these survive each
// form in which they are stored.
func TestParametersOfKinds(t *testing.T) {
	for _, k := range Kinds() {
		f := Filter{ID: 3, Name: "a", Kind: k.Name, Params: k.Params}
		values := map[string]reflect.Value{}
		i := 0
		f.each(func(key string, v reflect.Value) {
			if i >= len(k.Parameters) || k.Parameters[i].Key != key || k.Parameters[i].Want == "" || k.Parameters[i].Usage == "" {
				t.Fatalf("%s: parameter %d of the struct is %s; told are %+v", k.Name, i, key, k.Parameters)
			}
			i++
			value := reflect.New(v.Type()).Elem()
			switch v.Type() {
			case reflect.TypeFor[uint64]():
				value.SetUint(1 << 40)
			case reflect.TypeFor[float64]():
				value.SetFloat(0.0123)
			case reflect.TypeFor[string]():
				value.SetString(append(k.Parameters[i-1].Values, "some text")[0])
			case reflect.TypeFor[time.Duration]():
				value.SetInt(int64(90 * time.Minute))
			default:
				t.Fatalf("%s: %s is of the type %s", k.Name, key, v.Type())
			}
			values[key] = value
		})
		if i != len(k.Parameters) {
			t.Errorf("%s: has %d parameters, told are %d", k.Name, i, len(k.Parameters))
		}
		full, stray := f.With(values)
		if stray != nil {
			t.Fatalf("%s: %v", k.Name, stray)
		}
		text, err := full.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseJSON(text, true); err != nil || back != full {
			t.Errorf("%s: stored as %s, read back %+v, %v", k.Name, text, back, err)
		}
		kept := map[string]any{"generation": 7}
		for _, m := range full.Stored() {
			kept[m.Key] = m.Value
		}
		if back, err := f.WithStored(kept); err != nil || back != full {
			t.Errorf("%s: archived as %v, read back %+v, %v", k.Name, kept, back, err)
		}
		c := Default()
		c.Filters = []Filter{full}
		shown, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Parse("shown", shown); err != nil || !reflect.DeepEqual(back.Filters, c.Filters) {
			t.Errorf("%s: read back %+v, %v\n%s", k.Name, back.Filters, err, shown)
		}
		if diff := full.Differences(f); strings.Count(diff, " is ") != len(k.Parameters) {
			t.Errorf("%s: differences %q", k.Name, diff)
		}
	}
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"id":1,"name":"uri","kind":"bloom","capacity":1000,"error_rate":0.0001,"on_full":"warn"}`))
	f.Add([]byte(`{"id":7,"name":"news","kind":"timing","expire_ms":1500}`))
	f.Add([]byte(`{"kind":"x","more":[null,{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		filter, err := ParseJSON(text, true)
		if err != nil {
			return
		}
		written, err := filter.AppendJSON(nil)
		if err != nil || !json.Valid(written) {
			t.Fatalf("%+v: %s, %v", filter, written, err)
		}
		if back, err := ParseJSON(written, true); err != nil || back != filter {
			t.Fatalf("%s: read back %+v, %v; want %+v", written, back, err, filter)
		}
	})
}
