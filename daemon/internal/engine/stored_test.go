package engine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// The text is that of every version so far, and what is read back is the same filter.
func TestStored(t *testing.T) {
	for want, spec := range map[string]engine.Spec{
		`{"id":1,"name":"uri","kind":"bloom","capacity":1000,"error_rate":0.0001,"on_full":"warn"}`: {
			ID: 1, Name: "uri", Kind: "bloom", Capacity: 1000, ErrorRate: 0.0001, OnFull: "warn"},
		`{"id":7,"name":"news","kind":"timing","expire_ms":1500}`: {ID: 7, Name: "news", Kind: "timing", Expire: 1500 * time.Millisecond},
		`{"id":8,"kind":"timing"}`:                                {ID: 8, Kind: "timing"},
	} {
		text, err := json.Marshal(engine.StoredSpec(spec))
		if err != nil || string(text) != want {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
		var back engine.Stored
		if err := json.Unmarshal(text, &back); err != nil || back.Spec() != spec {
			t.Errorf("%s: read back %+v, %v", text, back.Spec(), err)
		}
	}
}
