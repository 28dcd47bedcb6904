package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// walk goes through the bytes of one segment and applies its records.
type walk struct {
	Reading
	found  *Found
	data   []byte
	header header

	whole  [][]byte // runs of whole records
	end    int      // where the records end
	sealed bool     // by a seal at end
}

// all applies every record. In the last segment it skips what a crash leaves;
// anything else that is not whole is an error that wraps ErrDamaged.
func (w *walk) all(last bool) (damage error) {
	w.records(headerSize)
	for !w.sealed {
		later := findRecord(w.data, w.end+slot, w.header.seq)
		if later == 0 {
			w.found.Torn += torn(w.data[w.end:], w.header.seq)
			break
		}
		if last && w.oldTorn(later) { // the segment ends before the torn record
			w.found.Torn += int64(later - w.end)
			break
		}
		if damage == nil && !(last && w.mayHaveHoles()) {
			damage = fmt.Errorf("%w: the record at byte %d is not whole, though one at byte %d is", ErrDamaged, w.end, later)
			if !w.Salvage {
				return damage
			}
		}
		w.found.Torn += int64(later - w.end)
		at := w.end
		if w.records(later); w.sealed && w.header.ordered && damage == nil {
			return fmt.Errorf("%w: the record at byte %d is not whole, though the segment is sealed", ErrDamaged, at)
		}
	}
	return damage
}

// mayHaveHoles tells whether a crash can leave whole records after one that is not.
func (w *walk) mayHaveHoles() bool { return w.header.sync != Always }

// oldTorn tells whether the bytes at end are a record that a crash tore although the
// seal directly after it is whole: older versions wrote both before they synced. Such a
// record was never acknowledged.
func (w *walk) oldTorn(later int) bool {
	if w.header.ordered || w.header.sync != Always {
		return false
	}
	if _, seal, _ := record(w.data[later:], w.header.seq); !seal {
		return false
	}
	length := torn(w.data[w.end:], w.header.seq)
	return length == 0 || length == int64(later-w.end) // 0: what is torn is its header
}

// records applies the records from byte at on, up to the first that is not whole.
func (w *walk) records(at int) {
	var keys []bloom.Hash
	from := at
	for {
		raw, seal, ok := record(w.data[at:], w.header.seq)
		if !ok || seal || len(raw)%(w.width()*slot) != 0 {
			w.end, w.sealed = at, ok && seal
			break
		}
		keys = decodeKeys(keys[:0], raw)
		w.Apply(keys)
		w.found.Keys += uint64(len(keys) / w.width())
		at += slot + len(raw)
	}
	if at > from {
		w.whole = append(w.whole, w.data[from:at])
	}
}

// renew makes the last segment whole, sealed and durable. If nothing between records has to
// be left out, that takes no space.
func (w *walk) renew(path string) error {
	if len(w.whole) > 1 || len(w.whole) == 1 && &w.whole[0][0] != &w.data[headerSize] {
		return w.compact(path)
	}
	f, err := w.FS.OpenFile("journal-reopen", path, os.O_RDWR)
	if err != nil {
		return err
	}
	err = f.WriteAt("journal-rewrite", w.data[:w.end], 0)
	if err == nil {
		err = f.Sync("journal-rewrite-sync")
	}
	if err == nil {
		err = writeSeal(f, w.header.seq, int64(w.end))
	}
	return errors.Join(err, f.Close())
}

// compact replaces the segment by one that has only its whole records.
func (w *walk) compact(path string) error {
	h := w.header
	h.ordered, h.size = true, headerSize+slot
	for _, run := range w.whole {
		h.size += uint64(len(run))
	}
	return w.FS.WriteFile("journal-compact", path, func(f *disk.File) error {
		data := h.encode()
		for _, run := range w.whole {
			data = append(data, run...)
		}
		seal := make([]byte, slot)
		putRecord(seal, sealMark, h.seq)
		return f.WriteAt("journal-compact-write", append(data, seal...), 0)
	})
}

// findRecord looks for a whole record or seal of segment seq from byte at on.
func findRecord(data []byte, at int, seq uint64) int {
	for ; at+slot <= len(data); at += slot {
		if _, _, ok := record(data[at:], seq); ok {
			return at
		}
	}
	return 0
}

// cutOff tells whether the end of the file may have cut a record off.
func cutOff(rest []byte, seq uint64) bool {
	return len(rest) < slot || torn(rest, seq) == int64(len(rest))
}

// torn is the length of an unfinished record of segment seq, 0 when there is none.
func torn(rest []byte, seq uint64) int64 {
	le := binary.LittleEndian
	if len(rest) < slot || le.Uint64(rest[8:]) != seq {
		return 0
	}
	return min(int64(len(rest)), slot+int64(le.Uint32(rest))*slot)
}
