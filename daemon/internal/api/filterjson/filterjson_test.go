package filterjson

import (
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/items"
	"github.com/cr-clawer/urifilter/daemon/internal/problem"
)

func TestDecodeIsStrict(t *testing.T) {
	for body, want := range map[string]string{
		`[]`:                          "wrong_type",
		`{"capacity":"many"}`:         "wrong_type",
		`{"capacity":-1}`:             "wrong_type",
		`{"capacity":1.5}`:            "wrong_type",
		`{"Capacity":1}`:              "unknown_field",
		`{"capacity":1,"capacity":2}`: "duplicate_field",
		`{"capacity":1`:               "malformed_json",
		`{"capacity":}`:               "malformed_json",
		`{"capacity":1}{}`:            "malformed_json",
		`{1:2}`:                       "malformed_json",
		`x`:                           "malformed_json",
	} {
		_, err := Decode([]byte(body))
		if got := problem.Of(err).Code; got != want {
			t.Errorf("%s: got %s (%v), want %s", body, got, err, want)
		}
	}
}

// Values that a body omits come from the existing filter, if it has the same kind, and otherwise
// from the defaults.
func TestSpecTakesWhatIsLeftOut(t *testing.T) {
	defaults := configs.Defaults{Capacity: 5000, ErrorRate: 0.0001}
	there := &engine.Filter{Spec: engine.Spec{ID: 7, Name: "x", Kind: "bloom", Params: configs.Bloom{Capacity: 10, ErrorRate: 0.01, OnFull: "reject"}}}
	for _, test := range []struct {
		body  string
		there *engine.Filter
		want  engine.Spec
	}{
		{" \n", nil, engine.Spec{Name: "x", Kind: "bloom", Params: configs.Bloom{Capacity: 5000, ErrorRate: 0.0001, OnFull: "grow"}}},
		{"{}", there, there.Spec},
		{`{"id":8,"capacity":20}`, there, engine.Spec{ID: 8, Name: "x", Kind: "bloom", Params: configs.Bloom{Capacity: 20, ErrorRate: 0.01, OnFull: "reject"}}},
		{`{"kind":"bloom"}`, there, there.Spec},
		{`{"kind":"timing"}`, there, engine.Spec{Name: "x", Kind: "timing", Params: configs.Timing{}}},
	} {
		asked, err := Decode([]byte(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := asked.Spec("x", test.there, defaults); err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v; want %+v", test.body, got, err, test.want)
		}
	}
}

// A parameter that is a time is refused as the other parameters are; only expire has codes of its own.
func TestTimesOfOtherParameters(t *testing.T) {
	p := configs.Parameter{Key: "pause", Want: "a number of seconds, such as 3"}
	for seconds, want := range map[float64]time.Duration{1.5: 1500 * time.Millisecond, 0.1: 100 * time.Millisecond, 0.00001: time.Millisecond, 4e9: 4e9 * time.Second} {
		if got, err := duration(p, seconds); got != want || err != nil {
			t.Errorf("%g s: got %v, %v; want %v", seconds, got, err, want)
		}
	}
	for seconds, want := range map[float64]string{-1: "pause: -1: want a number of seconds, such as 3", 1e300: "pause: 1e+300: want a number of seconds, such as 3"} {
		_, err := duration(p, seconds)
		if got := problem.Of(err); got.Code != problem.InvalidFilter || got.Detail != want {
			t.Errorf("%g s: got %+v, want %s: %s", seconds, got, problem.InvalidFilter, want)
		}
	}
	for body, want := range map[string]string{
		`{"kind":"timing","expire":"soon"}`: items.ExpireInvalid,
		`{"kind":"timing","expire":-1}`:     items.ExpireInvalid,
		`{"kind":"timing","expire":0}`:      items.ExpireInvalid,
		`{"kind":"bloom","expire":"soon"}`:  problem.ExpireNotSupported,
	} {
		asked, err := Decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := asked.Spec("x", nil, configs.Defaults{}); problem.Of(err).Code != want {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
}
