package budget

import "testing"

// mirror records how many bytes it may take.
type mirror struct{ bytes uint64 }

func (m *mirror) resize(bytes uint64) { m.bytes = bytes }

func TestBudgetIsDivided(t *testing.T) {
	b := New(800, 320)
	if b.TakeWhole(701) || !b.TakeWhole(100) || !b.TakeWhole(600) || b.TakeWhole(1) {
		t.Error("bit-maps are mirrored whole that leave less than an eighth, or are not that leave it")
	}
	b.GiveWhole(600)
	var large, small, exact, another mirror
	want := func(when string, all map[*mirror]uint64) {
		t.Helper()
		for m, bytes := range all {
			if m.bytes != bytes {
				t.Errorf("%s: a mirror has %d bytes, want %d", when, m.bytes, bytes)
			}
		}
	}
	b.BitMap(9000, large.resize)
	want("alone", map[*mirror]uint64{&large: 700})
	second := b.BitMap(1000, small.resize)
	want("two bit-maps", map[*mirror]uint64{&large: 630, &small: 70})
	part := b.Exact(exact.resize)
	want("an exact filter", map[*mirror]uint64{&large: 315, &small: 35, &exact: 320})
	b.Exact(another.resize)
	second.Leave()
	second.Leave()
	b.TakeWhole(100)
	want("another one for a bit-map", map[*mirror]uint64{&large: 200, &exact: 200, &another: 200})
	part.Leave()
	want("one left", map[*mirror]uint64{&large: 300, &another: 300})
	b.GiveWhole(100)
	want("the most of an exact filter", map[*mirror]uint64{&large: 350, &another: 320})
}

func TestWithoutABound(t *testing.T) {
	b := New(0, 0)
	var exact mirror
	b.Exact(exact.resize)
	if b.Bounded() || !b.TakeWhole(1<<50) || exact.bytes != Unbounded {
		t.Errorf("bounded %v, %d bytes for an exact filter", b.Bounded(), exact.bytes)
	}
}
