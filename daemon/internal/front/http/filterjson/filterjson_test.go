package filterjson

import (
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

func TestDecodeIsStrict(t *testing.T) {
	for body, want := range map[string]string{
		`[]`:                          "wrong_type",
		`{"capacity":"many"}`:         "wrong_type",
		`{"capacity":-1}`:             "invalid_filter",
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

// Faults of expire have codes of their own. Those of another time, which no kind has yet, are tested
// with the kind always_new of package daemon.
func TestFaultsOfExpire(t *testing.T) {
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
