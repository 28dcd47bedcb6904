package timing

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// The bytes of a file are those of docs/format.md, today and in every later version.
func TestEntriesVector(t *testing.T) {
	path := filepath.Join(t.TempDir(), Kind().File)
	wall := int64(1_800_000_000_000)
	clock := timing.Clock{Elapsed: func() time.Duration { return 0 }, Wall: func() time.Time { return time.UnixMilli(wall) }}
	table := timing.New(clock)
	wall += 500 // it was set
	defer table.Close()
	for i, until := range []int64{1_800_000_060_000, 1_800_003_600_000, 2_115_360_000_000} {
		if err := table.Put(timing.Entry{Key: bloom.Sum(42, []byte{byte('a' + i)}), Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	h := header{seed: 42, generation: 3, created: time.Unix(0, 1_700_000_000_123_456_789), clocks: table.Read(), from: 9}
	size, err := write(durable.FS{}, path, table, h)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || int64(len(got)) != size {
		t.Fatalf("%d bytes, said %d, %v", len(got), size, err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", "entries.hex"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x\nwant %x, %v", got, want, err)
	}
	m, err := read(path, clock)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	h.count, h.created = 3, h.created.UTC()
	if m.head != h || m.Stats().Items != 3 || m.table.Now() != 1_800_000_000_000 {
		t.Errorf("read back %+v, %d items, time %d; want %+v", m.head, m.Stats().Items, m.table.Now(), h)
	}
}

// decodeAll is what decode finds.
func decodeAll(data []byte) (h header, all []timing.Entry, blocks int, err error) {
	blocks, err = decode(bytes.NewReader(data), int64(len(data)),
		func(head header) error { h = head; return nil },
		func(block []timing.Entry) error { all = append(all, block...); return nil })
	return h, all, blocks, err
}

func encodeAll(h header, all []timing.Entry) []byte {
	h.count = uint64(len(all))
	data := h.encode()
	for len(all) > 0 {
		n := min(len(all), blockEntries)
		data, all = appendBlock(data, all[:n]), all[n:]
	}
	return appendBlock(data, nil)
}

// A file that is taken says the same when it is written again; any other is an error, and
// nothing is more than its bytes can hold.
func FuzzDecodeEntries(f *testing.F) {
	h := header{seed: 1, generation: 1, created: time.Unix(5, 6).UTC(), clocks: timing.Reading{Table: 7, Wall: 8}, from: 9}
	f.Add([]byte{})
	f.Add(encodeAll(h, nil))
	entries := []timing.Entry{{Key: bloom.Hash{Hi: 1, Lo: 2}, Until: 3}, {Key: bloom.Hash{Hi: 1 << 63, Lo: 2}, Until: -1}}
	whole := encodeAll(h, entries)
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add(append(slices.Clone(whole), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, all, _, err := decodeAll(data)
		if len(all)*entryBytes > len(data) {
			t.Fatalf("%d entries in %d bytes", len(all), len(data))
		}
		if err != nil {
			if !errors.Is(err, bloom.ErrCorrupt) && !strings.Contains(err.Error(), "format") {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		head, again, _, err := decodeAll(encodeAll(h, all))
		h.count = head.count
		if err != nil || head != h || !slices.Equal(again, all) {
			t.Fatalf("written again: %+v, %v, %v", head, again, err)
		}
	})
}
