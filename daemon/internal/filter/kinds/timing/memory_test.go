package timing

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/keyed"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
)

// The bytes of a file are those of docs/format.md, today and in every later version.
func TestEntriesVector(t *testing.T) {
	path := filepath.Join(t.TempDir(), Kind().File)
	wall := int64(1_800_000_000_000)
	clock := timing.Clock{Elapsed: func() time.Duration { return 0 }, Wall: func() time.Time { return time.UnixMilli(wall) }}
	h := keyed.Header{Seed: 42, Generation: 3, Created: time.Unix(0, 1_700_000_000_123_456_789)}
	m := format.New(engine.Identity{Seed: h.Seed, Generation: h.Generation, Created: h.Created}, clock)
	wall += 500 // the clock was set
	defer m.Free()
	for i, until := range []int64{1_800_000_060_000, 1_800_003_600_000, 2_115_360_000_000} {
		if err := m.Put(m.Now(), table.Entry{Key: bloom.Sum(42, []byte{byte('a' + i)}), Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Write(disk.FS{}, path, 9); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || int64(len(got)) != m.FileBytes.Load() {
		t.Fatalf("%d bytes, said %d, %v", len(got), m.FileBytes.Load(), err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "entries.hex"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x\nwant %x, %v", got, want, err)
	}
	again, from, err := read(engine.Spec{}, path, clock)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Free()
	h.Count, h.Created, h.From, h.Time, h.Wall = 3, h.Created.UTC(), 9, 1_800_000_000_000, wall
	if e := again.(entries); e.Head != h || from != 9 || e.Stats().Items != 3 || e.Now() != 1_800_000_000_000 {
		t.Errorf("read back %+v, %d items, time %d; want %+v", e.Head, e.Stats().Items, e.Now(), h)
	}
}
