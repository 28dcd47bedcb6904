package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
)

// Reading says what Replay is to do.
type Reading struct {
	Dir        string
	FS         durable.FS
	Generation uint64
	From       uint64 // the first segment that the filter's file does not cover
	Width      int    // slots of an entry, as in Options
	// Apply receives the slots of whole entries, a record at a time, in the order in which
	// they were appended; what the file has already may be among them.
	Apply func(slots []bloom.Hash)
	// ReadOnly leaves the files as they are.
	ReadOnly bool
	// Salvage goes on behind damage, applying every record that is whole.
	Salvage bool
}

// Found is what Replay saw.
type Found struct {
	Next     uint64 // sequence number for the next segment
	Segments int
	Keys     uint64 // entries
	Bytes    int64  // of records
	Torn     int64  // bytes of an unfinished record at the end, left by a crash
	// Damage lists what is wrong when Salvage went on behind it.
	Damage []error
}

// Replay reads the segments in order. What it can find, and what follows:
//
//   - a segment that the bit-map file covers (left by a crash before Discard), or
//     of an older generation: skipped;
//   - a sealed segment: every record must be whole, or it is damaged;
//   - the last segment, unsealed: its end is the first place without a whole record.
//     If a whole record follows later, the place is damage, since records are synced
//     one after the other (where the segment was written with Sync Always); if not, it
//     is what a crash left of a record that was not acknowledged. The end is sealed;
//   - an unsealed segment that is not the last, a gap in the sequence, a file shorter
//     than it was made whose records run up to its end, a bad header: damage.
//
// Damage is an error that wraps ErrDamaged and names the file, unless Salvage is set.
func Replay(r Reading) (Found, error) {
	found := Found{Next: r.From}
	names, err := dirNames(r.Dir)
	if err != nil {
		return found, err
	}
	if !r.ReadOnly {
		for _, name := range names {
			if strings.HasPrefix(name, sparePrefix) {
				if err := r.FS.Remove("journal-spare-remove", filepath.Join(r.Dir, name)); err != nil {
					return found, err
				}
			}
		}
	}
	all := segments(names)
	for i, seq := range all {
		if seq < r.From {
			continue
		}
		if seq != found.Next {
			if err := r.damage(&found, segmentPath(r.Dir, found.Next), fmt.Errorf("%w: the file is missing, while %s is there", ErrDamaged, filepath.Base(segmentPath(r.Dir, seq)))); err != nil {
				return found, err
			}
		}
		path := segmentPath(r.Dir, seq)
		if err := r.segment(&found, path, seq, i == len(all)-1); err != nil {
			if !errors.Is(err, ErrDamaged) {
				return found, err
			}
			if err := r.damage(&found, path, err); err != nil {
				return found, err
			}
		}
		found.Next = seq + 1
	}
	return found, nil
}

func (r Reading) width() int { return max(1, r.Width) }

func (r Reading) damage(found *Found, path string, err error) error {
	err = fmt.Errorf("%s: %w", path, err)
	if !r.Salvage {
		return err
	}
	found.Damage = append(found.Damage, err)
	return nil
}

// segment applies one segment's records.
func (r Reading) segment(found *Found, path string, seq uint64, last bool) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	h, err := decodeHeader(data)
	if err != nil {
		return err
	}
	switch {
	case h.seq != seq:
		return fmt.Errorf("%w: it says that it is segment %d", ErrDamaged, h.seq)
	case h.generation < r.Generation:
		return nil
	case h.generation > r.Generation:
		return fmt.Errorf("%w: it is of generation %d, the filter of %d", ErrDamaged, h.generation, r.Generation)
	case h.width != r.width():
		return fmt.Errorf("%w: its entries have %d slots, those of the filter's kind %d", ErrDamaged, h.width, r.width())
	}
	found.Segments++
	end, sealed := r.records(found, data, headerSize, seq)
	if sealed {
		return nil
	}
	if later := r.findRecord(data, end+slot, seq); later > 0 && (!last || h.sync == Always || r.Salvage) {
		err := fmt.Errorf("%w: the record at byte %d is not whole, though one at byte %d is", ErrDamaged, end, later)
		for r.Salvage && later > 0 {
			end, _ = r.records(found, data, later, seq)
			later = r.findRecord(data, end+slot, seq)
		}
		return err
	} else if later > 0 {
		// Without a sync after each record the system wrote them in any order.
		end, _ = r.records(found, data, later, seq)
	}
	switch {
	case !last:
		return fmt.Errorf("%w: it has no seal, though it is not the last", ErrDamaged)
	case uint64(len(data)) < h.size && cutOff(data[end:], seq):
		return fmt.Errorf("%w: it has %d of its %d bytes, and records to the end", ErrDamaged, len(data), h.size)
	}
	found.Torn = torn(data[end:], seq)
	if r.ReadOnly {
		return nil
	}
	f, err := r.FS.OpenFile("journal-reopen", path, os.O_RDWR)
	if err != nil {
		return err
	}
	return errors.Join(writeSeal(f, seq, int64(end)), f.Close())
}

// records applies the records from byte at on, up to the first that is not whole.
func (r Reading) records(found *Found, data []byte, at int, seq uint64) (end int, sealed bool) {
	var keys []bloom.Hash
	for {
		raw, seal, ok := record(data[at:], seq)
		if !ok || seal || len(raw)%(r.width()*slot) != 0 {
			return at, ok && seal
		}
		keys = decodeKeys(keys[:0], raw)
		r.Apply(keys)
		found.Keys += uint64(len(keys) / r.width())
		found.Bytes += int64(slot + len(raw))
		at += slot + len(raw)
	}
}

// findRecord looks for a whole record or seal of segment seq from byte at on.
func (r Reading) findRecord(data []byte, at int, seq uint64) int {
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
