package bloom

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/json"
	"hash"
	"math"
	"os"
	"slices"
	"testing"
)

// An implementation of docs/salted.md, which describes the filters of older Python projects,
// yields the vectors that a Python program made.
func TestSaltedVectors(t *testing.T) {
	raw, err := os.ReadFile("../../../../docs/salted/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var filters []struct {
		Capacity     float64 `json:"capacity"`
		ErrorRate    float64 `json:"error_rate"`
		Slices       int     `json:"slices"`
		BitsPerSlice uint64  `json:"bits_per_slice"`
		Items        map[string][]uint64
	}
	if err := json.Unmarshal(raw, &filters); err != nil || len(filters) != 5 {
		t.Fatalf("%d filters, %v", len(filters), err)
	}
	for _, f := range filters {
		k := int(math.Ceil(math.Log2(1 / f.ErrorRate)))
		m := uint64(math.Ceil(f.Capacity * -math.Log(f.ErrorRate) / (float64(k) * math.Ln2 * math.Ln2)))
		if k != f.Slices || m != f.BitsPerSlice || len(f.Items) != 4 {
			t.Errorf("%g items at %g: %d slices of %d bits, want %d of %d", f.Capacity, f.ErrorRate, k, m, f.Slices, f.BitsPerSlice)
		}
		for item, want := range f.Items {
			if got := salted(item, k, m); !slices.Equal(got, want) {
				t.Errorf("%g items at %g, %q: %v, want %v", f.Capacity, f.ErrorRate, item, got, want)
			}
		}
	}
}

// salted returns the places of an item in k slices of m bits.
func salted(item string, k int, m uint64) (places []uint64) {
	size := 2
	if m >= 1<<31 {
		size = 8
	} else if m >= 1<<15 {
		size = 4
	}
	newHash := sha512.New
	for _, shorter := range []func() hash.Hash{sha512.New384, sha256.New, sha1.New, md5.New} {
		if k*size <= shorter().Size() {
			newHash = shorter
		}
	}
	for salt := uint32(0); ; salt++ {
		h := newHash()
		h.Write(binary.LittleEndian.AppendUint32(nil, salt))
		of := h.Sum(nil)
		h.Reset()
		h.Write(of)
		h.Write([]byte(item))
		for rest := h.Sum(nil); len(rest) >= size; rest = rest[size:] {
			if len(places) == k {
				return places
			}
			var value [8]byte
			copy(value[:], rest[:size])
			places = append(places, binary.LittleEndian.Uint64(value[:])%m)
		}
	}
}
