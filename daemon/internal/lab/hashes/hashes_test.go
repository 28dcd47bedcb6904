package hashes

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// Values that are published with the General Purpose Hash Function Algorithms, with FNV,
// MurmurHash3, XXH3, MD5 and SHA-1.
func TestVectors(t *testing.T) {
	const key = "abcdefghijklmnopqrstuvwxyz1234567890"
	for name, want := range map[string]uint64{
		"JS": 1651003062, "PJW": 126631744, "ELF": 126631744, "BKDR": 3153586616, "SDBM": 3449571336,
		"DJB": 729241521, "DEK": 2923964919, "BP": 1726880944, "AP": 882643939,
	} {
		if got := function(t, name).Sum([]byte(key)); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
	for _, v := range []struct {
		name, item string
		want       uint64
	}{
		{"FNV-1a", "foobar", 0xbf9cf968},
		{"FNV-1a", "", 0x811c9dc5},
		{"MurmurHash3", "hello", 0xcbd8a7b341bd9b02},
		{"XXH3", "", 0x2d06800538d394c2},
		// By hand: h = 97, then 97 + 5·97 + 98.
		{"multiplicative", "ab", 6*97 + 98},
	} {
		if got := function(t, v.name).Sum([]byte(v.item)); got != v.want {
			t.Errorf("%s of %q: got %x, want %x", v.name, v.item, got, v.want)
		}
	}
	// The salts are those of docs/salted.md: the number as four bytes before the item. The values
	// are what md5sum and sha1sum print for four zero bytes, read as little-endian here.
	if got := saltedMD5(0, nil); fmt.Sprintf("%016x", got) != "3277294384ffd3f1" {
		t.Errorf("MD5 of four zeroes: got %016x", got)
	}
	if got := saltedSHA1(0, nil); fmt.Sprintf("%016x", got) != "280a45e778ca6990" {
		t.Errorf("SHA-1 of four zeroes: got %016x", got)
	}
}

func function(t *testing.T, name string) Function {
	t.Helper()
	for _, f := range All() {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no function %s", name)
	return Function{}
}

// The measurement shows the known properties of the functions: XXH3 and MurmurHash3 are as good as
// ideal on any input; BP, which depends only on the last bytes, reports everything as seen where
// those are the same.
func TestQualityOfKnownFunctions(t *testing.T) {
	t.Parallel()
	inputs := []Input{Letters(20_000), Digits(20_000)}
	calls := 0
	results, err := Measure(t.Context(), All(), inputs, func(done, of int, _ string) { calls++ })
	if err != nil || len(results) != len(All()) || calls != len(All())+1 {
		t.Fatalf("got %d results, %d calls, %v", len(results), calls, err)
	}
	for i, r := range results {
		if i > 0 && r.Nanos < results[i-1].Nanos || r.Factor < 1 {
			t.Errorf("%s: %v ns, a factor of %v, is out of order", r.Name, r.Nanos, r.Factor)
		}
		for _, rate := range r.Rates {
			switch r.Name {
			case "XXH3", "MurmurHash3", "salted MD5", "salted SHA-1":
				if rate.Low > 1.3*rate.Ideal || rate.High < rate.Ideal/1.3 {
					t.Errorf("%s on %s: got %v to %v, want about %v", r.Name, rate.Input, rate.Low, rate.High, rate.Ideal)
				}
			case "BP":
				if rate.Input == "digits" && rate.Measured != 1 {
					t.Errorf("BP on URLs with one end: got %v, want 1", rate.Measured)
				}
			}
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Measure(stopped, All(), inputs, func(int, int, string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: got %v", err)
	}
}

func TestLines(t *testing.T) {
	var lines [][]byte
	for i := range 2 * MinItems {
		lines = append(lines, fmt.Appendf(nil, "%d", i/2), nil)
	}
	in, err := Lines("file", lines)
	if err != nil || len(in.in) != MinItems/2 || len(in.out) != MinItems/2 {
		t.Errorf("got %d and %d, %v", len(in.in), len(in.out), err)
	}
	if _, err := Lines("file", lines[:100]); err == nil {
		t.Error("a short file is taken")
	}
}
