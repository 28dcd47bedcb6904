package exact

import (
	"fmt"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
)

func someKeys(from, n int) []bloom.Hash {
	keys := make([]bloom.Hash, n)
	for i := range keys {
		keys[i] = bloom.Sum(1, []byte{byte(from + i), byte((from + i) >> 8), byte((from + i) >> 16)})
	}
	return keys
}

func (m *mirror) count(keys []bloom.Hash) (n int) {
	isNew := make([]bool, len(keys))
	m.Has(keys, isNew, make([]bool, len(keys)))
	for _, is := range isNew {
		if !is {
			n++
		}
	}
	return n
}

// Items that were asked for stay within the bytes; accepted ones stay as long as Redis may lose them.
func TestNoRaceMirrorIsBounded(t *testing.T) {
	const bytes = 4 << 20
	m := newMirror(bytes)
	defer m.Close()
	now := time.Unix(1_000_000, 0)
	m.now = func() time.Time { return now }
	put := func(from, n int, accepted bool) {
		for ; n > 0; from, n = from+1000, n-1000 {
			if err := m.Put(someKeys(from, 1000), accepted); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(0, 500_000, true)
	if got := m.count(someKeys(0, 500_000)); got != 500_000 {
		t.Errorf("%d of 500,000 items that were accepted just now are there", got)
	}
	before := m.Memory()
	put(1_000_000, 100_000, false)
	if got := m.Memory(); got != before {
		t.Errorf("the mirror grows from %d to %d bytes for what was only asked for", before, got)
	}
	now = now.Add(keptFor)
	put(2_000_000, 300_000, false)
	put(3_000_000, 120_000, false)
	if got := m.Memory(); got > bytes*5/4 {
		t.Errorf("it takes %d bytes, want about %d", got, bytes)
	}
	if got := m.count(someKeys(3_000_000, 120_000)); got < 50_000 {
		t.Errorf("%d of the latest items are there", got)
	}
	if got := m.count(someKeys(0, 500_000)); got != 0 {
		t.Errorf("%d of the oldest items are there", got)
	}
}

// Every item that was put in is there, or counts as evicted. An item that is found often stays.
func TestNoRaceMirrorCounts(t *testing.T) {
	m := newMirror(1 << 20)
	defer m.Close()
	asked := someKeys(0, 1000)
	total := len(asked)
	if err := m.Put(asked, false); err != nil {
		t.Fatal(err)
	}
	for from := 1_000_000; from < 1_300_000; from += 1000 {
		isNew, aged := make([]bool, len(asked)), make([]bool, len(asked))
		m.Has(asked, isNew, aged)
		var again []bloom.Hash
		for i, is := range aged {
			if is {
				again = append(again, asked[i])
			}
		}
		if err := m.Put(append(again, someKeys(from, 1000)...), false); err != nil {
			t.Fatal(err)
		}
		total += 1000
	}
	m.Drop(asked[:10])
	total -= 10
	if got := m.count(asked); got != 990 {
		t.Errorf("%d of 990 items are there that were asked for again and again", got)
	}
	there := m.count(someKeys(1_000_000, 300_000)) + 990
	all, found, evicted := m.Counts()
	if evicted != uint64(total-there) {
		t.Errorf("%d items evicted, want the %d that no longer exist", evicted, total-there)
	}
	if all != 300*1000+1000+300_000 || found != 300*1000+990+uint64(there-990) {
		t.Errorf("%d items asked for, %d found", all, found)
	}
}

func TestMirrorDrops(t *testing.T) {
	m := newMirror(4 << 20)
	defer m.Close()
	keys := someKeys(0, 10_000)
	if err := m.Put(keys, true); err != nil {
		t.Fatal(err)
	}
	m.Drop(keys[:1000])
	if got := m.count(keys); got != 9000 {
		t.Errorf("%d are left of 9000", got)
	}
	for g := range forgotten.Groups / 2 {
		m.DropGroup(g)
	}
	for _, key := range keys[1000:] {
		g := forgotten.GroupOf(key)
		if there := m.count([]bloom.Hash{key}) == 1; there != (g >= forgotten.Groups/2) {
			t.Fatalf("an item of group %d is there: %v", g, there)
		}
	}
}

// Nodes of all levels have distinct keys, and their items have the node's path, wherever the sets begin.
func TestNodes(t *testing.T) {
	for _, base := range []uint8{0, 1, 3, deepest} {
		t.Run(fmt.Sprint(base), func(t *testing.T) { testNodes(t, base) })
	}
}

func testNodes(t *testing.T, base uint8) {
	tr := tree{base: base}
	seen := map[string]node{}
	for _, key := range someKeys(0, 5000) {
		n := tr.nodeOf(key, base)
		for level := base; ; level++ {
			name := string(n.appendKey(nil, "urifilter:{8:00000000:"))
			if other, ok := seen[name]; ok && other != n {
				t.Fatalf("%+v and %+v have one key", n, other)
			}
			seen[name] = n
			if level == deepest {
				break
			}
			below := tr.nodeOf(key, level+1)
			found := 0
			for i := range fan {
				if n.child(i) == below {
					found++
				}
			}
			if found != 1 || below.group() != forgotten.GroupOf(key) {
				t.Fatalf("%+v is below %+v %d times, in group %d", below, n, found, below.group())
			}
			n = below
		}
	}
	key := someKeys(7, 1)[0]
	for level := base; level < deepest; level++ {
		if got := tr.leaf(key); got != tr.nodeOf(key, level) {
			t.Fatalf("level %d: leaf %+v", level, got)
		}
		tr.note(tr.nodeOf(key, level))
	}
	if got := tr.leaf(key); got.level != deepest {
		t.Errorf("leaf %+v", got)
	}
	if tr.forget(); tr.leaf(key).level != base {
		t.Error("splits are known after they were forgotten")
	}
}

// Settings know how many fingerprints the largest base can tell apart, and refuse capacities at which
// more than the error rate of them would be equal.
func TestCapacityOfFingerprints(t *testing.T) {
	const limit = roots << (fanBits * largestBase) << 32
	for _, c := range []struct {
		capacity uint64
		refused  bool
	}{{1e6, false}, {limit / 1_000_000, false}, {limit/1_000_000 + 1_000_000, true}} {
		faults := configs.Bloom{Capacity: c.capacity, ErrorRate: 1e-6, OnFull: "grow", Layout: "fingerprints"}.Faults()
		if got := len(faults) == 1 && faults[0].Key == "capacity"; got != c.refused {
			t.Errorf("capacity %d: %v", c.capacity, faults)
		}
	}
}
