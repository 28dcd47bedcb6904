package keyed

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

var magic = [8]byte{'U', 'R', 'I', 'T', 'E', 'S', 'T', 'S'}

// formats are all that there are.
var formats = []Format{{Magic: magic}, {Magic: magic, Short: true}, {Magic: magic, Deadlines: true}}

// decodeAll returns what decode finds.
func decodeAll(f Format, data []byte) (h Header, all []table.Entry, reserved []table.Reservation, blocks int, err error) {
	blocks, err = f.decode(bytes.NewReader(data), int64(len(data)),
		func(head Header) { h = head },
		func(block []table.Entry) error { all = append(all, block...); return nil },
		func(r table.Reservation) error { reserved = append(reserved, r); return nil })
	return h, all, reserved, blocks, err
}

func encodeAll(f Format, h Header, all []table.Entry, reserved ...table.Reservation) []byte {
	h.Count = uint64(len(all))
	data := f.encode(h)
	for len(all) > 0 {
		n := min(len(all), blockEntries)
		data, all = f.appendBlock(data, all[:n]), all[n:]
	}
	data = f.appendBlock(data, nil)
	if !h.Reserving {
		return data
	}
	for _, r := range reserved {
		data = appendReservation(data, r)
	}
	return appendReserved(data, table.Reservation{})
}

// aReservation has keys in each state.
func aReservation() table.Reservation {
	return table.Reservation{ID: bloom.Hash{Hi: 5, Lo: 6}, Made: 7, End: 8, Keys: []table.ReservedKey{
		{Key: bloom.Hash{Hi: 9, Lo: 10}, State: table.Held}, {Key: bloom.Hash{Hi: 11, Lo: 12}, State: table.Committed},
	}}
}

// A reservation of any number of keys comes back.
func TestReservations(t *testing.T) {
	f, h := Format{Magic: magic, Deadlines: true}, Header{Created: time.Unix(5, 6).UTC(), Reserving: true}
	for _, n := range []int{1, blockEntries, blockEntries + 1, 3 * blockEntries} {
		many := aReservation()
		for i := len(many.Keys); i < n; i++ {
			many.Keys = append(many.Keys, table.ReservedKey{Key: bloom.Hash{Hi: uint64(i)}, State: table.Released})
		}
		many.Keys = many.Keys[:n]
		_, _, parts, _, err := decodeAll(f, encodeAll(f, h, nil, many, aReservation()))
		if err != nil || len(parts) < 2 {
			t.Fatalf("%d parts, %v", len(parts), err)
		}
		last := len(parts) - 1
		var keys []table.ReservedKey
		for _, part := range parts[:last] {
			keys = append(keys, part.Keys...)
			if part.ID != many.ID || part.Made != many.Made || part.End != many.End {
				t.Errorf("%d keys: %+v", n, part)
			}
		}
		if !slices.Equal(keys, many.Keys) || len(parts[last].Keys) != 2 {
			t.Errorf("%d keys: %d came back, in %d parts", n, len(keys), len(parts))
		}
	}
}

// An accepted file has the same contents when it is written again; any other is an error, and
// no count exceeds what its bytes can hold.
func FuzzDecodeEntries(f *testing.F) {
	h := Header{Seed: 1, Generation: 1, Created: time.Unix(5, 6).UTC(), Time: 7, Wall: 8, From: 9}
	entries := []table.Entry{{Key: bloom.Hash{Hi: 1, Lo: 2}, Until: 3}, {Key: bloom.Hash{Hi: 1 << 63, Lo: 2}, Until: -1}}
	for _, format := range formats {
		deadlines, whole := format.Deadlines, encodeAll(format, h, entries)
		f.Add(deadlines, []byte{})
		f.Add(deadlines, encodeAll(format, h, nil))
		f.Add(deadlines, whole)
		f.Add(deadlines, whole[:len(whole)-3])
		f.Add(deadlines, append(slices.Clone(whole), 1))
		reserving := h
		reserving.Reserving = true
		f.Add(deadlines, encodeAll(format, reserving, entries, aReservation()))
		f.Add(deadlines, encodeAll(format, reserving, entries))
	}
	f.Fuzz(func(t *testing.T, deadlines bool, data []byte) {
		format := Format{Magic: magic, Deadlines: deadlines}
		h, all, reserved, _, err := decodeAll(format, data)
		format.Short = h.Short
		if len(all)*format.EntryBytes() > len(data) {
			t.Fatalf("%d entries in %d bytes", len(all), len(data))
		}
		if err != nil {
			if !errors.Is(err, bloom.ErrCorrupt) && !strings.Contains(err.Error(), "format") {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		head, again, reservedAgain, _, err := decodeAll(format, encodeAll(format, h, all, reserved...))
		h.Count = head.Count
		same := func(a, b table.Reservation) bool {
			return a.ID == b.ID && a.Made == b.Made && a.End == b.End && slices.Equal(a.Keys, b.Keys)
		}
		if err != nil || head != h || !slices.Equal(again, all) || !slices.EqualFunc(reserved, reservedAgain, same) {
			t.Fatalf("written again: %+v, %v, %v", head, again, err)
		}
	})
}

// A file that is cut short or has a flipped bit is reported as damaged, at any length.
func TestDamageIsSeen(t *testing.T) {
	for i := range 2 * len(formats) {
		f, reserving := formats[i/2], i%2
		h := Header{Seed: 1, Generation: 1, Created: time.Unix(5, 6).UTC(), From: 9, Reserving: reserving == 1}
		whole := encodeAll(f, h, []table.Entry{{Key: bloom.Hash{Hi: 1, Lo: 2}, Until: table.Kept}, {Key: bloom.Hash{Hi: 3, Lo: 4}, Until: table.Kept}}, aReservation())
		wantBlocks, wantReserved := 2+2*reserving, reserving
		if _, all, reserved, blocks, err := decodeAll(f, whole); err != nil || len(all) != 2 || blocks != wantBlocks || len(reserved) != wantReserved {
			t.Fatalf("%v and %v in %d blocks, %v", all, reserved, blocks, err)
		}
		for n := range whole {
			if _, _, _, _, err := decodeAll(f, whole[:n]); !errors.Is(err, bloom.ErrCorrupt) {
				t.Errorf("cut at %d: %v", n, err)
			}
			damaged := slices.Clone(whole)
			damaged[n] ^= 4
			if _, _, _, _, err := decodeAll(f, damaged); !errors.Is(err, bloom.ErrCorrupt) {
				t.Errorf("byte %d is wrong: %v", n, err)
			}
		}
	}
}
