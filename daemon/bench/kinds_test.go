package main

import (
	"testing"

	"github.com/cr-clawer/urifilter/configs"
)

// A daemon whose start is measured has the filter that its row names.
func TestRestartedKinds(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, k := range samples(1000) {
		if k.restart == "" {
			continue
		}
		tried++
		cfg, err := configs.Load("", []string{"URIFILTER_FILTERS=[{id: 1, name: uri, " + k.restart + "}]"})
		if err != nil || len(cfg.Filters) != 1 {
			t.Errorf("%s: %+v, %v", k.name(), cfg.Filters, err)
			continue
		}
		got := cfg.Filters[0]
		if got.Kind != k.kind || got.DigestBits() != k.spec().DigestBits() || got.Expire() != k.spec().Expire() {
			t.Errorf("%s: the daemon gets %v", k.name(), got)
		}
	}
	if tried != 3 {
		t.Errorf("%d kinds are started again, want timing, exact and exact of 64 bits", tried)
	}
}
