package exact

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/keyed"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// vectors are the digests that a filter can have, and the ends of the names of their files.
var vectors = map[string]uint64{"": 0, "64": configs.ShortDigest}

func newMemory(t *testing.T, digest uint64) *keyed.Memory {
	t.Helper()
	m, err := Kind().New(engine.Spec{ID: 1, Name: "jobs", Kind: Kind().Name, Params: configs.Exact{Digest: digest}},
		engine.Identity{Seed: 42, Generation: 3, Created: time.Unix(0, 1_700_000_000_123_456_789)}, timing.SystemClock())
	if err != nil {
		t.Fatal(err)
	}
	return m.(*keyed.Memory)
}

func hashes(texts string) (keys []bloom.Hash) {
	for _, text := range texts {
		keys = append(keys, bloom.Sum(42, []byte(string(text))))
	}
	return keys
}

// journal keeps the entries of a memory.
type journal struct{ slots []bloom.Hash }

func (j *journal) Append([]bloom.Hash, []bool)      { panic("entries have two slots") }
func (j *journal) AppendEntries(slots []bloom.Hash) { j.slots = append(j.slots, slots...) }

// The bytes of a file are those of docs/format.md, today and in every later version.
func TestHashesVector(t *testing.T) {
	for name, digest := range vectors {
		t.Run(name, func(t *testing.T) { testHashesVector(t, "hashes"+name+".hex", digest) })
	}
}

func testHashesVector(t *testing.T, vector string, digest uint64) {
	path := filepath.Join(t.TempDir(), Kind().File)
	m := newMemory(t, digest)
	defer m.Free()
	if n, err := m.Add(hashes("abc"), make([]bool, 3)); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if err := m.Write(disk.FS{}, path, 9); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", vector))
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x\nwant %x, %v", got, want, err)
	}
	other := engine.Spec{Kind: Kind().Name, Params: configs.Exact{Digest: configs.ShortDigest - digest}}
	if _, _, err := Kind().Read(other, path, timing.SystemClock()); !errors.Is(err, bloom.ErrCorrupt) || !strings.Contains(err.Error(), "other digests") {
		t.Errorf("read as that of a filter with other digests: %v", err)
	}
	again, from, err := Kind().Read(engine.Spec{}, path, timing.SystemClock())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Free()
	if st := again.Stats(); from != 9 || again.Seed() != 42 || st.Generation != 3 || st.Items != 3 || again.Checked() != 4 {
		t.Errorf("read back from %d, seed %d, %+v, %d blocks", from, again.Seed(), st, again.Checked())
	}
}

// With a reservation the file is of version 2, or 4, and has the clocks.
func TestReservationsVector(t *testing.T) {
	for name, digest := range vectors {
		t.Run(name, func(t *testing.T) { testReservationsVector(t, "reserved"+name+".hex", digest > 0) })
	}
}

func testReservationsVector(t *testing.T, vector string, short bool) {
	path := filepath.Join(t.TempDir(), Kind().File)
	wall := int64(1_800_000_000_000)
	clock := timing.Clock{Elapsed: func() time.Duration { return 0 }, Wall: func() time.Time { return time.UnixMilli(wall) }}
	m := formatOf(short).New(engine.Identity{Seed: 42, Generation: 3, Created: time.Unix(0, 1_700_000_000_123_456_789)}, clock)
	defer m.Free()
	m.SetFileReserves()
	wall += 500 // the clock was set
	id := engine.Reservation{Hi: 0x0123456789abcdef, Lo: 0xfedcba9876543210}
	if _, err := m.Add(hashes("ab"), make([]bool, 2)); err != nil {
		t.Fatal(err)
	}
	if got := m.Reserve(id, hashes("bc"), time.Minute, make([]bool, 2)); got != (engine.Reserved{Fresh: 1}) {
		t.Fatal(got)
	}
	if err := m.Write(disk.FS{}, path, 9); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", vector))
	if err != nil {
		t.Fatalf("%v; got %x", err, got)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x\nwant %x, %v", got, want, err)
	}
	again, _, err := Kind().Read(engine.Spec{}, path, clock)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Free()
	if done, err := again.(kind.Reserving).Commit(id, hashes("c"), 0, make([]bool, 1)); done.Done != 1 || err != nil {
		t.Errorf("read back: %+v are committed, %v", done, err)
	}
}

// The last journal entry of a key counts, whatever the file had for it.
func TestJournalIsAppliedInItsOrder(t *testing.T) {
	for name, digest := range vectors {
		t.Run(name, func(t *testing.T) { testJournal(t, digest) })
	}
}

func testJournal(t *testing.T, digest uint64) {
	a := newMemory(t, digest)
	defer a.Free()
	var j journal
	a.Log(&j)
	add := func(keys []bloom.Hash) {
		if _, err := a.Add(keys, make([]bool, len(keys))); err != nil {
			t.Fatal(err)
		}
	}
	add(hashes("abcd"))
	if got := a.Forget(hashes("bcx")); got != 2 {
		t.Fatalf("%d are forgotten", got)
	}
	add(hashes("bce"))
	if got := a.Forget(hashes("c")); got != 1 || a.Stats().Items != 4 {
		t.Fatalf("%d are forgotten, %+v", got, a.Stats())
	}
	for _, before := range []string{"", "c", "abcd", "abde", "bd"} { // states that a file may have recorded
		b := newMemory(t, digest)
		if _, err := b.Add(hashes(before), make([]bool, len(before))); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := b.Apply(j.slots); err != nil {
				t.Fatal(err)
			}
		}
		fresh := make([]bool, 6)
		if b.Has(hashes("abcdex"), fresh); fresh[0] || fresh[1] || !fresh[2] || fresh[3] || fresh[4] || !fresh[5] || b.Stats().Items != 4 {
			t.Errorf("on a file with %q: new %v, %+v", before, fresh, b.Stats())
		}
		if err := b.Free(); err != nil {
			t.Error(err)
		}
	}
}
