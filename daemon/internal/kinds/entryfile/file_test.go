package entryfile

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/table"
)

var magic = [8]byte{'U', 'R', 'I', 'T', 'E', 'S', 'T', 'S'}

// decodeAll is what decode finds.
func decodeAll(f Format, data []byte) (h Header, all []table.Entry, blocks int, err error) {
	blocks, err = f.decode(bytes.NewReader(data), int64(len(data)),
		func(head Header) error { h = head; return nil },
		func(block []table.Entry) error { all = append(all, block...); return nil })
	return h, all, blocks, err
}

func encodeAll(f Format, h Header, all []table.Entry) []byte {
	h.Count = uint64(len(all))
	data := f.encode(h)
	for len(all) > 0 {
		n := min(len(all), blockEntries)
		data, all = f.appendBlock(data, all[:n]), all[n:]
	}
	return f.appendBlock(data, nil)
}

// A file that is taken says the same when it is written again; any other is an error, and
// nothing is more than its bytes can hold.
func FuzzDecodeEntries(f *testing.F) {
	h := Header{Seed: 1, Generation: 1, Created: time.Unix(5, 6).UTC(), Time: 7, Wall: 8, From: 9}
	entries := []table.Entry{{Key: bloom.Hash{Hi: 1, Lo: 2}, Until: 3}, {Key: bloom.Hash{Hi: 1 << 63, Lo: 2}, Until: -1}}
	for _, deadlines := range []bool{false, true} {
		format := Format{magic, deadlines}
		whole := encodeAll(format, h, entries)
		f.Add(deadlines, []byte{})
		f.Add(deadlines, encodeAll(format, h, nil))
		f.Add(deadlines, whole)
		f.Add(deadlines, whole[:len(whole)-3])
		f.Add(deadlines, append(slices.Clone(whole), 1))
	}
	f.Fuzz(func(t *testing.T, deadlines bool, data []byte) {
		format := Format{magic, deadlines}
		h, all, _, err := decodeAll(format, data)
		if len(all)*format.EntryBytes() > len(data) {
			t.Fatalf("%d entries in %d bytes", len(all), len(data))
		}
		if err != nil {
			if !errors.Is(err, bloom.ErrCorrupt) && !strings.Contains(err.Error(), "format") {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		head, again, _, err := decodeAll(format, encodeAll(format, h, all))
		h.Count = head.Count
		if err != nil || head != h || !slices.Equal(again, all) {
			t.Fatalf("written again: %+v, %v, %v", head, again, err)
		}
	})
}

// A file that is cut short or has a bit of another value is told as damaged, of any length.
func TestDamageIsSeen(t *testing.T) {
	for _, deadlines := range []bool{false, true} {
		f := Format{magic, deadlines}
		h := Header{Seed: 1, Generation: 1, Created: time.Unix(5, 6).UTC(), From: 9}
		whole := encodeAll(f, h, []table.Entry{{Key: bloom.Hash{Hi: 1, Lo: 2}, Until: table.Kept}, {Key: bloom.Hash{Hi: 3, Lo: 4}, Until: table.Kept}})
		if _, all, blocks, err := decodeAll(f, whole); err != nil || len(all) != 2 || blocks != 2 {
			t.Fatalf("%v in %d blocks, %v", all, blocks, err)
		}
		for n := range whole {
			if _, _, _, err := decodeAll(f, whole[:n]); !errors.Is(err, bloom.ErrCorrupt) {
				t.Errorf("cut at %d: %v", n, err)
			}
			damaged := slices.Clone(whole)
			damaged[n] ^= 4
			if _, _, _, err := decodeAll(f, damaged); !errors.Is(err, bloom.ErrCorrupt) {
				t.Errorf("byte %d is wrong: %v", n, err)
			}
		}
	}
}
