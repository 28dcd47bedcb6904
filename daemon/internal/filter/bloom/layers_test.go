package bloom

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The layers of maps that have been made never change: a layer that was made larger, or that took
// more items, in a later version would break the promise, or lose items in a restore. Each file has
// the header of a map for 200,000 items at 0.0001.
func TestLayersVectors(t *testing.T) {
	type layer struct {
		blocks, capacity uint64
		rate             float64
	}
	for version, want := range map[string][]layer{
		"growing2.hex": {
			{10988, 200000, 5e-05},
			{24732, 400029, 2.5e-05},
			{55654, 800036, 1.25e-05},
			{125263, 1600188, 6.25e-06},
			{281995, 3200047, 3.125e-06},
			{635315, 6400106, 1.5625e-06},
			{1432716, 12801082, 7.8125e-07},
			{3234455, 25601988, 3.90625e-07},
			{7312269, 51203707, 1.953125e-07},
			{16557934, 102403720, 9.765625e-08},
			{37566622, 204808182, 4.8828125e-08},
			{85414539, 409615822, 2.44140625e-08},
			{194685092, 819269599, 1.220703125e-08},
			{444885855, 1638407354, 6.103515625e-09},
			{1019783519, 3276913341, 3.0517578125e-09},
			{2345302918, 6554079935, 1.52587890625e-09},
		},
		"growing3.hex": {
			{10988, 200000, 5e-05},
			{18945, 262189, 1e-05},
			{39352, 524307, 8.000000000000001e-06},
			{81760, 1048685, 6.400000000000001e-06},
			{169848, 2097167, 5.120000000000001e-06},
			{352924, 4194702, 4.096000000000001e-06},
			{733248, 8388674, 3.276800000000001e-06},
			{1523781, 16778718, 2.6214400000000007e-06},
			{3166608, 33557682, 2.0971520000000004e-06},
			{6580608, 67110273, 1.6777216000000003e-06},
			{13678540, 134229605, 1.3421772800000002e-06},
			{28432395, 268450500, 1.073741824e-06},
			{59106896, 536888557, 8.589934592000001e-07},
			{122889240, 1073753283, 6.8719476736e-07},
			{255559216, 2147695486, 5.49755813888e-07},
			{531458351, 4295198127, 4.3980465111040004e-07},
		},
		"growing4.hex": {
			{10152, 200000, 5e-05},
			{16044, 262161, 1e-05},
			{32923, 524359, 8.000000000000001e-06},
			{67551, 1048727, 6.400000000000001e-06},
			{138582, 2097308, 5.120000000000001e-06},
			{284303, 4194531, 4.096000000000001e-06},
			{583252, 8389268, 3.276800000000001e-06},
			{1196408, 16777623, 2.6214400000000007e-06},
			{2454156, 33554587, 2.0971520000000004e-06},
			{5034136, 67109904, 1.6777216000000003e-06},
			{10326370, 134224796, 1.3421772800000002e-06},
			{21182169, 268465509, 1.073741824e-06},
			{43445167, 536908584, 8.589934592000001e-07},
			{89107141, 1073787309, 6.8719476736e-07},
			{182761009, 2147536580, 5.49755813888e-07},
			{374847470, 4295024199, 4.3980465111040004e-07},
		},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", version))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(err)
		}
		var h Header
		if err := h.UnmarshalBinary(raw); err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		for i, w := range want {
			l := h.Layer(i)
			if got := (layer{l.Blocks, l.Capacity, l.ErrorRate}); got != w {
				t.Errorf("%s: layer %d is %v, want %v", version, i, got, w)
			}
		}
		again, err := h.MarshalBinary()
		if err != nil || string(again) != string(raw) || len(want) != MaxLayers {
			t.Errorf("%s: %d layers known, read and written it is %x, %v", version, len(want), again, err)
		}
		for _, mayPair := range []bool{false, true} {
			made, err := NewGrowingHeader(200_000, 1e-4, mayPair, 7, time.Unix(5, 6))
			if same := made.Version() == h.Version(); err != nil || made.SameBits(h) != same {
				t.Errorf("%s: made now it is %+v, %v", version, made, err)
			}
		}
	}
}

// A map that grows has little that is empty, wherever it stops: not only after just so many layers.
func TestMemoryOfGrownMaps(t *testing.T) {
	for _, c := range []struct {
		mayPair              bool
		tenfold, mean, worst float64 // bytes of an item: at tenfold; on the way there
	}{{true, 4.3, 4.8, 6.3}, {false, 5.2, 5.8, 7.6}} {
		for _, capacity := range []uint64{2_000_000, 10_000_000, 100_000_000, 1_000_000_000} {
			h, err := NewGrowingHeader(capacity, 1e-4, c.mayPair, 1, time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			at := func(items float64) float64 {
				bytes := 0.0
				for i := range MaxLayers {
					l := h.Layer(i)
					bytes += float64(l.Bytes())
					if items -= float64(l.Capacity); items <= 0 {
						break
					}
				}
				return bytes
			}
			sum, n, worst, last := 0.0, 0, 0.0, 0.0
			for grown := 1.0; grown <= 10; grown *= 1.001 {
				items := grown * float64(capacity)
				last = at(items) / items
				sum, n, worst = sum+last, n+1, max(worst, last)
			}
			mean := sum / float64(n)
			t.Logf("capacity %d, pairs %v: %.2f bytes an item grown tenfold, on the way there %.2f on average and at most %.2f", capacity, c.mayPair, last, mean, worst)
			if last > c.tenfold || mean > c.mean || worst > c.worst {
				t.Errorf("want at most %v, %v and %v", c.tenfold, c.mean, c.worst)
			}
		}
	}
}

// Wherever it begins, a map reaches so many items, but for what rounding takes.
func TestReachOfGrownMaps(t *testing.T) {
	for _, capacity := range []uint64{1, 1_000, 200_000, 356_700, 557_000, 1_000_000, 10_000_000, 28_000_000, 1_000_000_000, MaxCapacity} {
		for _, mayPair := range []bool{true, false} {
			h, err := NewGrowingHeader(capacity, 1e-4, mayPair, 1, time.Unix(0, 0))
			if err != nil {
				t.Fatal(err)
			}
			reach := uint64(0)
			for i := range MaxLayers {
				reach += h.Layer(i).Capacity
			}
			if reach < maxItems/1000*999 || reach < 300*capacity {
				t.Errorf("a map for %d items ends at %d", capacity, reach)
			}
		}
	}
}
