package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
)

// A filter that is made like another one has its format, if it is made for the same.
func TestFormatOfAFilterMadeLikeAnother(t *testing.T) {
	for _, mayPair := range []bool{false, true} {
		like, err := bloom.NewGrowingHeader(20_000, 1e-4, mayPair, 7, time.Unix(5, 6))
		if err != nil {
			t.Fatal(err)
		}
		like.Layers, like.Generation = 3, 4
		made := func(capacity uint64) bloom.Header {
			spec := Spec{Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: capacity, ErrorRate: 1e-4, OnFull: "grow"}}
			h, err := BitMapHeader(spec, Identity{Seed: 7, Generation: 4, Format: &like}, !mayPair)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		if h := made(20_000); !h.SameBits(like) || h.Layers != 1 {
			t.Errorf("format %d, %d layers; want format %d, and one", h.Version(), h.Layers, like.Version())
		}
		if h := made(20_001); h.Version() == like.Version() || h.Capacity != 20_001 {
			t.Errorf("for another capacity: format %d for %d items", h.Version(), h.Capacity)
		}
	}
}

func TestBitMapThatNoMemoryHolds(t *testing.T) {
	if mapped.Machine() == 0 {
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
