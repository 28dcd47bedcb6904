package scaling

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// The verification value of SMHasher for MurmurHash64A: a hash of the hashes of 256 keys.
func TestMurmur64A(t *testing.T) {
	var key [256]byte
	var all []byte
	for i := range 256 {
		key[i] = byte(i)
		all = binary.LittleEndian.AppendUint64(all, murmur64A(key[:i], uint64(256-i)))
	}
	if got := uint32(murmur64A(all, 0)); got != 0x1F0D3804 {
		t.Errorf("got %08x, want 1f0d3804", got)
	}
}

func memoryOf(t testing.TB, p configs.Scaling) *memory {
	t.Helper()
	m, err := Kind().New(engine.Spec{ID: 1, Name: "x", Kind: "scaling", Params: p}, engine.Identity{Generation: 3, Created: time.Unix(0, 5)}, timing.SystemClock())
	if err != nil {
		t.Fatal(err)
	}
	m.Log(&journal{})
	return m.(*memory)
}

type journal struct{ slots []bloom.Hash }

func (j *journal) Append([]bloom.Hash, []bool)      { panic("entries have two slots") }
func (j *journal) AppendEntries(slots []bloom.Hash) { j.slots = append(j.slots, slots...) }

func keysOf(from, to int, site string) (keys []bloom.Hash) {
	for i := from; i < to; i++ {
		keys = append(keys, hash(fmt.Appendf(nil, "https://%s.com/%d", site, i)))
	}
	return keys
}

func add(t testing.TB, m *memory, keys []bloom.Hash) int {
	t.Helper()
	n, err := m.Add(keys, make([]bool, len(keys)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func seen(m *memory, keys []bloom.Hash) (n int) {
	fresh := make([]bool, len(keys))
	m.Has(keys, fresh)
	for _, is := range fresh {
		if !is {
			n++
		}
	}
	return n
}

// parts writes a dump as its parts, each with its iterator and length.
func parts(t testing.TB, m *memory) (dump []byte) {
	t.Helper()
	for iterator := int64(0); ; {
		next, data, ok := m.Chunk(iterator)
		if !ok {
			t.Fatalf("no part %d", iterator)
		}
		if next == 0 {
			return dump
		}
		dump = binary.LittleEndian.AppendUint64(dump, uint64(next))
		dump = append(binary.LittleEndian.AppendUint32(dump, uint32(len(data))), data...)
		iterator = next
	}
}

// peers are what RedisBloom's own chain makes of the same items: how many it called new, how many
// of as many others it then calls seen, its layers, and the digest of the parts of its dump, without
// the bits an item, of which the last digit depends on the logarithm of the C library. A program
// that links its published source made them.
var peers = []struct {
	capacity, expansion  uint64
	rate                 float64
	fixed                bool
	items                int
	added, seenOf, layer int
	digest               string
}{
	{100, 2, 0.01, false, 100000, 98899, 1092, 10, "180bae793a496f9c1ebb37eda622c78d3b844cfc52c4f37dbe471566ed5e394c"},
	{2000, 2, 0.001, false, 1500, 1500, 0, 1, "6b8ba73d9686ff766caca6fb6c713f31eb811d77057ba39d31d0f14920853f62"},
	{50000, 4, 0.0001, true, 40000, 40000, 0, 1, "a162438e10e5dc111272f75046c3392fda73b1f3245a57915233cac10f6442dd"},
}

func TestLayoutIsThatOfRedisBloom(t *testing.T) {
	for _, p := range peers {
		m := memoryOf(t, configs.NewScaling(p.capacity, p.rate, p.expansion, p.fixed))
		added := add(t, m, keysOf(0, p.items, "example"))
		dump := parts(t, m)
		for i := range m.chain.layers {
			clear(dump[12+chainBytes+i*layerBytes+32:][:8])
		}
		digest := sha256.Sum256(dump)
		got, layers := seen(m, keysOf(0, p.items, "other")), len(m.chain.layers)
		if added != p.added || got != p.seenOf || layers != p.layer || hex.EncodeToString(digest[:]) != p.digest {
			t.Errorf("%d at %g: %d new, %d of others seen, %d layers, %x; want %+v", p.capacity, p.rate, added, got, layers, digest, p)
		}
		if n := seen(m, keysOf(0, p.items, "example")); n != p.items {
			t.Errorf("%d at %g: %d of %d are remembered", p.capacity, p.rate, n, p.items)
		}
	}
}

// The sizes that BF.INFO of RedisBloom shows.
func TestSizes(t *testing.T) {
	for _, test := range []struct {
		capacity uint64
		rate     float64
		fixed    bool
		bytes    uint64
	}{{100, 0.01, false, 240}, {2000, 0.001, false, 4056}} {
		if got := memoryOf(t, configs.NewScaling(test.capacity, test.rate, 2, test.fixed)).Layers().Bytes; got != test.bytes {
			t.Errorf("%+v: %d bytes", test, got)
		}
	}
}

// A file, with the journal from the moment at which it was begun, gives the filter again; a byte
// that was changed is found.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "layers")
	m := memoryOf(t, configs.NewScaling(100, 0.01, 2, false))
	add(t, m, keysOf(0, 500, "example"))
	var j journal
	m.Log(&j)
	add(t, m, keysOf(500, 600, "example")) // between the rotation of the journal and the file
	if err := m.Write(disk.FS{}, path, 7); err != nil {
		t.Fatal(err)
	}
	add(t, m, keysOf(600, 2000, "example"))
	again, from, err := read(path)
	if err != nil || from != 7 || again.generation != 3 || again.created != 5 {
		t.Fatal(from, again, err)
	}
	if err := again.Apply(j.slots); err != nil {
		t.Fatal(err)
	}
	if n := seen(again, keysOf(0, 2000, "example")); n != 2000 {
		t.Errorf("%d of 2000 are remembered", n)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		broken := bytes.Clone(whole)
		broken[i] ^= 0x10
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := read(path); !errors.Is(err, bloom.ErrCorrupt) {
			t.Fatalf("byte %d is changed: %v", i, err)
		}
		if i%7 == 0 {
			if err := os.WriteFile(path, whole[:i], 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := read(path); !errors.Is(err, bloom.ErrCorrupt) {
				t.Fatalf("cut at byte %d: %v", i, err)
			}
		}
	}
}

// The rate holds for a chain that has grown.
func TestGrownKeepsItsRate(t *testing.T) {
	m := memoryOf(t, configs.NewScaling(1000, 0.01, 2, false))
	add(t, m, keysOf(0, 100_000, "example"))
	const asked = 200_000
	if got, most := seen(m, keysOf(0, asked, "other")), 0.01*asked+6*math.Sqrt(0.01*asked); float64(got) > most {
		t.Errorf("%d of %d are taken for seen, want %.0f at most", got, asked, most)
	}
	st := m.Stats()
	if st.FPR <= 0 || st.FPR > 0.012 {
		t.Errorf("estimated rate %g", st.FPR)
	}
}

func FuzzHead(f *testing.F) {
	f.Add(memoryOf(f, configs.NewScaling(100, 0.01, 2, false)).chain.appendHead(nil))
	f.Fuzz(func(t *testing.T, head []byte) {
		c, sizes, err := parseHead(head)
		if err != nil {
			return
		}
		if !c.fixed && len(c.layers) > 0 && !bytes.Equal(headOf(c, sizes)[chainBytes:], head[chainBytes:]) {
			t.Errorf("%x is understood as %x", head, headOf(c, sizes))
		}
	})
}

// headOf is appendHead of a chain whose bits have not been made.
func headOf(c *chain, sizes []uint64) (head []byte) {
	le := binary.LittleEndian
	head = make([]byte, chainBytes)
	for i, l := range c.layers {
		for _, n := range []uint64{sizes[i], sizes[i] * 8, l.items, math.Float64bits(l.errorRate), math.Float64bits(l.perItem)} {
			head = le.AppendUint64(head, n)
		}
		head = append(le.AppendUint64(le.AppendUint32(head, l.hashes), l.capacity), 0)
	}
	return head
}

// The bytes of a file are those of docs/format.md, today and in every later version.
func TestLayersVector(t *testing.T) {
	path := filepath.Join(t.TempDir(), Kind().File)
	m := memoryOf(t, configs.NewScaling(3, 0.1, 2, false))
	var keys []bloom.Hash
	for _, item := range []string{"a", "b", "c", "d"} {
		keys = append(keys, hash([]byte(item)))
	}
	if n := add(t, m, keys); n != 4 || len(m.chain.layers) != 2 {
		t.Fatalf("%d are new, %d layers", n, len(m.chain.layers))
	}
	if err := m.Write(disk.FS{}, path, 9); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "layers.hex"))
	if err != nil {
		t.Fatalf("%v; got %x", err, got)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x, %v", got, want, err)
	}
	again, from, err := read(path)
	if err != nil || from != 9 || again.generation != 3 || again.created != 5 || seen(again, keys) != 4 {
		t.Errorf("read back from %d: %+v, %v", from, again, err)
	}
	// The parts of a dump are the same head and bits.
	dump := parts(t, m)
	headEnd := fixedHead + chainBytes + 2*layerBytes
	if !bytes.Contains(dump, want[fixedHead:headEnd]) || !bytes.Contains(dump, m.chain.layers[1].bits) {
		t.Errorf("dump %x", dump)
	}
}

// The hashes in docs/format.md are those of their items.
func TestHashesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/format.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([0-9a-f]{16})` \\| `([0-9a-f]{16})` \\| ([0-9, ]+) \\|$").FindAllSubmatch(page, -1)
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		key := hash(row[1])
		var places []string
		for i := range uint64(8) {
			places = append(places, fmt.Sprint((key.Hi+i*key.Lo)%1152))
		}
		if a, b := fmt.Sprintf("%016x", key.Hi), fmt.Sprintf("%016x", key.Lo); a != string(row[2]) || b != string(row[3]) || strings.Join(places, ", ") != string(row[4]) {
			t.Errorf("| `%s` | `%s` | `%s` | %s |", row[1], a, b, strings.Join(places, ", "))
		}
	}
}
