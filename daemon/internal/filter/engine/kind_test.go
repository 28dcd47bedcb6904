package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

func TestBitMapThatNoMemoryHolds(t *testing.T) {
	if bloom.Memory() == 0 {
		t.Log("how much memory this machine has is not known: only what fits is tried")
	} else {
		var spec *SpecError
		large := Spec{Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: bloom.MaxCapacity, ErrorRate: 0.0001}}
		h, err := BitMapHeader(large, Identity{Generation: 1}, true)
		if err == nil {
			err = FitsMemory(large, h)
		}
		if !errors.As(err, &spec) || spec.Field != "capacity" || !strings.Contains(err.Error(), " GB of memory") {
			t.Errorf("%v, want a *SpecError of the capacity", err)
		}
	}
	usual := Spec{Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 150_000_000, ErrorRate: 0.0001}}
	if h, err := BitMapHeader(usual, Identity{Generation: 1}, true); err != nil || FitsMemory(usual, h) != nil {
		t.Error(err, FitsMemory(usual, h))
	}
}
