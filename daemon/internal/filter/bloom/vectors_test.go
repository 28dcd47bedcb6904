package bloom

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/vectors.json: only when the format gets a new version")

// vectors are the test vectors for implementations in other languages.
type vectors struct {
	Comment string       `json:"comment"`
	Header  headerVector `json:"header"`
	Items   []itemVector `json:"items"`
	// Stripe0 is the CRC-32C of the first stripe after all items were added.
	Stripe0 string `json:"stripe0_crc32c"`
}

type headerVector struct {
	Capacity   uint64  `json:"capacity"`
	ErrorRate  float64 `json:"error_rate"`
	Blocks     uint64  `json:"blocks"`
	Seed       string  `json:"seed"`
	Generation uint64  `json:"generation"`
	Created    string  `json:"created"`
	Bytes      string  `json:"bytes"`
}

type itemVector struct {
	Canonical string    `json:"canonical"`
	Value     bool      `json:"value"` // not a string: hashed with the salted seed
	Hi        string    `json:"hi"`
	Lo        string    `json:"lo"`
	Block     uint64    `json:"block"`
	Bits      [k]int    `json:"bits"`  // one in each of the block's words
	Pairs     [k][2]int `json:"pairs"` // those of format 4
}

func makeVectors(t *testing.T) vectors {
	t.Helper()
	const seed = 0x0123456789abcdef
	created := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	h, err := NewHeader(1_000_000, 0.0001, seed, created)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(h)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	raw, err := h.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	v := vectors{
		Comment: "bit-map format 1, and the bits of format 4; docs/format.md says what each number is",
		Header: headerVector{h.Capacity, h.ErrorRate, h.Blocks, fmt.Sprintf("%016x", uint64(seed)), h.Generation,
			created.Format(time.RFC3339), hex.EncodeToString(raw)},
	}
	for _, it := range []struct {
		text  string
		value bool
	}{
		{"https://www.baidu.com/", false}, {"http://www.2cto.com", false}, {"1", false}, {"1", true},
		{"苹果", false}, {`{"a":1,"b":[true,null]}`, true}, {"127.0.0.1", false}, {"a", false},
		{"seventeen bytes !", false}, {fmt.Sprintf("%0130d", 7), false}, {fmt.Sprintf("%0300d", 7), false},
	} {
		key := Sum(seed, []byte(it.text))
		if it.value {
			key = SumValue(seed, []byte(it.text))
		}
		iv := itemVector{Canonical: it.text, Value: it.value, Hi: fmt.Sprintf("%016x", key.Hi), Lo: fmt.Sprintf("%016x", key.Lo), Block: blockOf(key, h.Blocks)}
		for w := range iv.Bits {
			lower, upper := pair(key.Lo)
			iv.Bits[w] = int(key.Lo >> (6 * w) & 63)
			iv.Pairs[w] = [2]int{int(lower >> (6 * w) & 63), int(upper >> (6 * w) & 63)}
		}
		v.Items = append(v.Items, iv)
		fresh := make([]bool, 1)
		if m.Add([]Hash{key}, fresh) != 1 {
			t.Fatalf("%q is not fresh", it.text)
		}
		for w, bit := range iv.Bits {
			if m.blocks[iv.Block][w]>>bit&1 != 1 {
				t.Fatalf("%q: bit %d of word %d of block %d is not set", it.text, bit, w, iv.Block)
			}
		}
	}
	v.Stripe0 = fmt.Sprintf("%08x", Checksum(m.Stripe(0, make([]byte, StripeBytes))))
	return v
}

func TestVectors(t *testing.T) {
	const file = "testdata/vectors.json"
	got := makeVectors(t)
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want vectors
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the format has changed:\ngot  %+v\nwant %+v", got, want)
	}
}

// With seed 0 the hash is plain XXH128, whose published values are these
// (xxhsum -H2 prints the same).
func TestHashIsXXH128(t *testing.T) {
	for text, want := range map[string]string{
		"":    "99aa06d3014798d86001c324468d497f",
		"a":   "a96faf705af16834e6c632b61e964e1f",
		"abc": "06b05ab6733a618578af5f94892f3950",
	} {
		key := Sum(0, []byte(text))
		if got := fmt.Sprintf("%016x%016x", key.Hi, key.Lo); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestHeaderRoundTripAndDamage(t *testing.T) {
	h, err := NewHeader(12345, 0.001, 99, time.Unix(1700000000, 123456789))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := h.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var back Header
	if err := back.UnmarshalBinary(raw); err != nil || !reflect.DeepEqual(back, h) {
		t.Fatalf("got %+v, %v, want %+v", back, err, h)
	}
	for at := range raw {
		bad := append([]byte(nil), raw...)
		bad[at] ^= 0x10
		if err := back.UnmarshalBinary(bad); err == nil {
			t.Errorf("byte %d changed: no error", at)
		}
		if err := back.UnmarshalBinary(raw[:at]); err == nil {
			t.Errorf("cut to %d bytes: no error", at)
		}
	}
}

func TestStripesRoundTrip(t *testing.T) {
	a := newMap(t, 3_000_000, 1e-4) // three stripes, the last one short
	keys := urlKeys(42, 0, 100_000)
	fresh := make([]bool, len(keys))
	a.Add(keys, fresh)
	b, err := New(a.Header())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	other := urlKeys(42, 5_000_000, 1000)
	b.Add(other, fresh)
	buf := make([]byte, StripeBytes)
	for i := range a.Header().Stripes() {
		if err := b.MergeStripe(i, a.Stripe(i, buf)); err != nil {
			t.Fatal(err)
		}
	}
	b.Has(append(other, keys...), make([]bool, len(other)+len(keys)))
	fresh = make([]bool, len(keys)+len(other))
	b.Has(append(keys, other...), fresh)
	for i, f := range fresh {
		if f {
			t.Fatalf("key %d is lost in the merge", i)
		}
	}
	set := uint64(0)
	for _, blk := range b.blocks {
		for _, w := range blk {
			for ; w != 0; w &= w - 1 {
				set++
			}
		}
	}
	if set != b.set {
		t.Errorf("after a merge %d bits are set, counted %d", set, b.set)
	}
	if err := b.MergeStripe(0, buf[:64]); err == nil {
		t.Error("a stripe of a wrong size is accepted")
	}
}

func FuzzHeader(f *testing.F) {
	h, _ := NewHeader(1000, 0.01, 1, time.Unix(0, 0))
	raw, _ := h.MarshalBinary()
	f.Add(raw)
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		if h.UnmarshalBinary(b) != nil {
			return
		}
		again, _ := h.MarshalBinary()
		if string(again) != string(b[:HeaderSize]) {
			t.Errorf("decoded %x, encoded %x", b[:HeaderSize], again)
		}
	})
}
