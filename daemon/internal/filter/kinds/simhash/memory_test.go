package simhash

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/simhash"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// The settings, which do not depend on the daemon, have the same bounds.
func TestBounds(t *testing.T) {
	if configs.MaxDistance != simhash.MaxDistance || engine.MaxDocumentID != simhash.MaxID || engine.MaxNear != simhash.MaxNear {
		t.Errorf("distance %d and %d, id %d and %d, near %d and %d", configs.MaxDistance, simhash.MaxDistance,
			engine.MaxDocumentID, simhash.MaxID, engine.MaxNear, simhash.MaxNear)
	}
}

func spec(hash string) engine.Spec {
	return engine.Spec{ID: 1, Name: "pages", Kind: Kind().Name, Params: configs.Simhash{Distance: 3, FeatureHash: hash}}
}

func newFilter(t *testing.T) (*memory, *journal) {
	t.Helper()
	m, err := Kind().New(spec("md5"), engine.Identity{Seed: 42, Generation: 3, Created: time.Unix(0, 1_700_000_000_123_456_789)}, timing.SystemClock())
	if err != nil {
		t.Fatal(err)
	}
	j := &journal{}
	m.Log(j)
	return m.(*memory), j
}

// journal keeps the entries of a memory.
type journal struct{ slots []bloom.Hash }

func (j *journal) Append([]bloom.Hash, []bool)      { panic("documents have several slots") }
func (j *journal) AppendEntries(slots []bloom.Hash) { j.slots = append(j.slots, slots...) }

func near(m *memory, remember bool, docs ...engine.Document) []engine.Comparison {
	found := make([]engine.Comparison, len(docs))
	_ = m.Near(docs, engine.Nearness{Distance: m.Distance(), Limit: 5, Remember: remember}, found)
	return found
}

func documentsOf(m *memory) (all []string) {
	for _, d := range m.index.Documents(0, m.index.Fingerprints(), nil) {
		all = append(all, fmt.Sprintf("%s %x", d.ID, d.Fingerprint))
	}
	return all
}

var three = []engine.Document{
	{ID: "https://example.com/a", Fingerprint: 0x0123456789abcdef},
	{ID: "é", Fingerprint: 0x0123456789abcdee},
	{ID: strings.Repeat("long/", 204) + "id..", Fingerprint: 1},
}

// The bytes of a file are those of docs/format.md, today and in every later version.
func TestFileVector(t *testing.T) {
	path := filepath.Join(t.TempDir(), Kind().File)
	m, _ := newFilter(t)
	near(m, true, three[:2]...)
	if err := m.Write(disk.FS{}, path, 9); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "fingerprints.hex"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x\nwant %x, %v", got, want, err)
	}
	again, from, err := Kind().Read(spec("md5"), path, timing.SystemClock())
	if err != nil {
		t.Fatal(err)
	}
	if st := again.Stats(); from != 9 || again.Seed() != 42 || st.Generation != 3 || st.Items != 2 || again.Checked() != 2 ||
		!slices.Equal(documentsOf(again.(*memory)), documentsOf(m)) {
		t.Errorf("read back from %d, seed %d, %+v, %d blocks, %q", from, again.Seed(), st, again.Checked(), documentsOf(again.(*memory)))
	}
	if _, _, err := Kind().Read(engine.Spec{}, path, timing.SystemClock()); err != nil {
		t.Errorf("without its parameters: %v", err)
	}
	if _, _, err := Kind().Read(spec("xxh3"), path, timing.SystemClock()); !errors.Is(err, bloom.ErrCorrupt) || !strings.Contains(err.Error(), "the filter for 3 and xxh3") {
		t.Errorf("of a filter with another hash: %v", err)
	}
	newer := slices.Clone(got)
	newer[8] = 2
	h := bloom.Checksum(newer[:124])
	newer[124], newer[125], newer[126], newer[127] = byte(h), byte(h>>8), byte(h>>16), byte(h>>24)
	if _, err := decodeHeader(newer); err == nil || !strings.Contains(err.Error(), "use a newer urifilter") {
		t.Errorf("of a later format: %v", err)
	}
}

// A file that is cut short or has a flipped bit is reported as damaged, at any length.
func TestDamageIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), Kind().File)
	m, _ := newFilter(t)
	near(m, true, three...)
	if err := m.Write(disk.FS{}, path, 9); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := func(data []byte) error {
		_, err := decode(bytes.NewReader(data), func(header) error { return nil }, func(simhash.Document) {})
		return err
	}
	if err := all(whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := all(whole[:n]); !errors.Is(err, bloom.ErrCorrupt) {
			t.Errorf("cut at %d: %v", n, err)
		}
		damaged := slices.Clone(whole)
		damaged[n] ^= 4
		if err := all(damaged); !errors.Is(err, bloom.ErrCorrupt) {
			t.Errorf("byte %d is wrong: %v", n, err)
		}
	}
	if err := all(append(whole, 0)); !errors.Is(err, bloom.ErrCorrupt) {
		t.Errorf("a byte more: %v", err)
	}
}

// More than a block's documents come back in their order.
func TestManyBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), Kind().File)
	m, _ := newFilter(t)
	for i := range uint64(9000) {
		near(m, true, engine.Document{ID: fmt.Sprintf("page %d", i), Fingerprint: i / 2 * 0x9e3779b97f4a7c15})
	}
	if err := m.Write(disk.FS{}, path, 1); err != nil {
		t.Fatal(err)
	}
	again, _, err := read(spec("md5"), path, timing.SystemClock())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := documentsOf(again.(*memory)), documentsOf(m); !slices.Equal(got, want) || len(got) != 9000 || again.Checked() < 3 {
		t.Errorf("%d documents in %d blocks, want %d in the same order", len(got), again.Checked(), len(want))
	}
}

// FuzzDecode: an accepted file has the same contents when it is written again; any other is an error.
func FuzzDecode(f *testing.F) {
	h := header{distance: 3, hash: simhash.XXH3, seed: 1, generation: 2, created: time.Unix(5, 6).UTC(), from: 7, count: 1}
	whole := appendDocument(append(h.encode(), 0, 0, 0, 0), simhash.Document{ID: []byte("a"), Fingerprint: 9})
	whole = endBlock(whole, headBytes)
	whole = endBlock(append(whole, 0, 0, 0, 0), len(whole))
	f.Add([]byte{})
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add(append(slices.Clone(whole), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		size, n := 0, 0
		_, err := decode(bytes.NewReader(data), func(got header) error {
			if got.distance > simhash.MaxDistance || got.hash == "" {
				t.Fatalf("%+v is taken", got)
			}
			return nil
		}, func(d simhash.Document) {
			if len(d.ID) == 0 || len(d.ID) > simhash.MaxID {
				t.Fatalf("an id of %d bytes", len(d.ID))
			}
			size, n = size+docBytes+len(d.ID), n+1
		})
		if size > len(data) {
			t.Fatalf("%d documents of %d bytes in %d", n, size, len(data))
		}
		if err != nil && !errors.Is(err, bloom.ErrCorrupt) && !strings.Contains(err.Error(), "use a newer urifilter") {
			t.Fatalf("an error of another kind: %v", err)
		}
	})
}

// Documents come back from the journal, however records split them. An incomplete document does
// not come back, whichever of its slots are missing, and it does not affect those after it.
func TestNoRaceJournalWithSlotsMissing(t *testing.T) {
	m, j := newFilter(t)
	near(m, true, three...)
	near(m, true, three[0]) // known, so not journaled again
	if want := m.Slots(three) - len(three); len(j.slots) != want {
		t.Fatalf("%d slots, want %d", len(j.slots), want)
	}
	apply := func(slots ...[]bloom.Hash) []string {
		again, _ := newFilter(t)
		for _, s := range slots {
			if err := again.Apply(s); err != nil {
				t.Fatal(err)
			}
		}
		return documentsOf(again)
	}
	all := documentsOf(m)
	a := slotsOf(len(three[0].ID))
	b := a + slotsOf(len(three[1].ID))
	for n := range len(j.slots) + 1 {
		if got := apply(j.slots[:n], j.slots[n:]); !slices.Equal(got, all) {
			t.Errorf("in two pieces at %d: %q", n, got)
		}
		whole := 0 // complete documents before a cut
		for _, end := range []int{a, b, len(j.slots)} {
			if n >= end {
				whole++
			}
		}
		if got := apply(j.slots[:n]); !slices.Equal(got, all[:whole]) {
			t.Errorf("cut at %d: %q", n, got)
		}
		if got := apply(j.slots[:n], j.slots[:a]); !slices.Contains(got, all[0]) || len(got) != max(whole, 1) {
			t.Errorf("cut at %d, and gone on with: %q", n, got)
		}
		for to := n + 1; to <= len(j.slots); to++ { // damage that is skipped
			for _, d := range apply(j.slots[:n], j.slots[to:]) {
				if !slices.Contains(all, d) {
					t.Errorf("without slots %d to %d: %q was never remembered", n, to, d)
				}
			}
		}
	}
}

func TestNear(t *testing.T) {
	m, j := newFilter(t)
	found := near(m, true, three...)
	if !found[0].New || found[1].New || !found[2].New || found[1].More ||
		!slices.Equal(found[1].Near, []engine.Nearby{{ID: three[0].ID, Distance: 1}}) {
		t.Fatalf("%+v", found)
	}
	slots := len(j.slots)
	other := engine.Document{ID: "other", Fingerprint: three[0].Fingerprint ^ 7}
	for range 2 {
		found = near(m, false, other, engine.Document{ID: "second", Fingerprint: other.Fingerprint})
		want := []engine.Nearby{{ID: "é", Distance: 2}, {ID: three[0].ID, Distance: 3}}
		if !slices.Equal(found[0].Near, want) || !slices.Equal(found[1].Near, want) || len(j.slots) != slots {
			t.Fatalf("a look: %+v, %d slots", found, len(j.slots)-slots)
		}
	}
	_ = m.Near([]engine.Document{other}, engine.Nearness{Distance: 3, Limit: 1}, found[:1])
	if !found[0].More || len(found[0].Near) != 1 || found[0].New {
		t.Errorf("with a limit of 1: %+v", found[0])
	}
	asked := 0
	_ = m.Near([]engine.Document{other}, engine.Nearness{Distance: 3, Limit: 2, Tell: func(bytes int) bool { asked = bytes; return false }}, found[:1])
	if !found[0].More || found[0].Near != nil || found[0].New || asked < toldHeld {
		t.Errorf("without memory for the answer: %+v, %d bytes were asked for", found[0], asked)
	}
	_ = m.Near([]engine.Document{other}, engine.Nearness{Distance: 1, Limit: 1}, found[:1])
	if !found[0].New || found[0].More || found[0].Near != nil {
		t.Errorf("up to a distance of 1: %+v", found[0])
	}
}

// The answer to one call is bounded: beyond the bound, documents are only reported to be near
// others.
func TestAnswerIsBounded(t *testing.T) {
	m, _ := newFilter(t)
	const same = 30
	for i := range same {
		near(m, true, engine.Document{ID: fmt.Sprintf("%01000d", i)})
	}
	docs := make([]engine.Document, maxTold/same/1000+10)
	for i := range docs {
		docs[i] = engine.Document{ID: fmt.Sprint(i)}
	}
	found := make([]engine.Comparison, len(docs))
	_ = m.Near(docs, engine.Nearness{Distance: 3, Limit: engine.MaxNear}, found)
	told := 0
	for i, f := range found {
		if told += len(f.Near); f.New || len(f.Near) == 0 && !f.More {
			t.Fatalf("document %d: %+v", i, f)
		}
	}
	if last := found[len(found)-1]; told*1000 < maxTold || told*1000 > maxTold+same*1000 || len(last.Near) > 0 {
		t.Errorf("%d are told, the last has %d", told, len(last.Near))
	}
}
