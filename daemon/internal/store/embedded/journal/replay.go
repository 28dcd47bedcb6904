package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Reading says what Replay is to do.
type Reading struct {
	Dir        string
	FS         disk.FS
	Generation uint64
	Mark       uint64 // as in Options; segments of other filters are damage
	From       uint64 // the first segment that the filter's file does not cover
	Reached    uint64 // the segments before this one were made and sealed; 0: nothing is known
	Width      int    // slots of an entry, as in Options
	// Apply receives the slots of whole entries, a record at a time, in the order in which
	// they were appended; what the file has already may be among them.
	Apply func(slots []bloom.Hash)
	// ReadOnly leaves the files as they are.
	ReadOnly bool
	// Salvage continues after damage, applying every record that is whole.
	Salvage bool
}

// Found is what Replay saw.
type Found struct {
	Next     uint64 // sequence number for the next segment
	Segments int
	Keys     uint64 // entries
	Bytes    int64  // of these segments, which have their full size even if they hold little
	Torn     int64  // bytes of unfinished records, left by a crash
	// Damage lists the damage after which Salvage continued.
	Damage []error
}

// Replay reads the segments in order. What it can find, and what it does then:
//
//   - a segment that the bit-map file covers (left by a crash before Discard), or
//     of an older generation: skipped;
//   - a sealed segment: every record must be whole, or it is damaged;
//   - the last segment, unsealed: its end is the first place without a whole record.
//     If a whole record follows later, the place is damage, because records are synced
//     one after the other (if the segment was written with Sync Always); if not, it
//     is what a crash left of a record that was not acknowledged;
//   - the last segment, unsealed, of another mode: what is not whole was not synced. It is
//     left out, wherever it is;
//   - the last segment, sealed by an older version, which did not sync before the seal:
//     treated as an unsealed one, and one record directly before the seal may be torn;
//   - an unsealed segment that is not the last or that Reached says was sealed, a gap in the
//     sequence or at its end, a file that is shorter than when it was made and whose records run
//     up to its end, a bad header, another filter's mark: damage.
//
// The last segment is rewritten and sealed, so that what was applied is on the disk
// before anybody is told about it: it may have been read from the system's cache, and after
// a failed sync the cache has data that the disk will never get.
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
	if found.Next < r.Reached {
		err := fmt.Errorf("%w: the file is missing, though the journal went on to %s", ErrDamaged, filepath.Base(segmentPath(r.Dir, r.Reached-1)))
		if err := r.damage(&found, segmentPath(r.Dir, found.Next), err); err != nil {
			return found, err
		}
		found.Next = r.Reached
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
	case h.mark != 0 && r.Mark != 0 && h.mark != r.Mark:
		return ErrForeign
	case h.generation > r.Generation:
		return fmt.Errorf("%w: it is of generation %d, the filter of %d", ErrDamaged, h.generation, r.Generation)
	case h.width != r.width():
		return fmt.Errorf("%w: its entries have %d slots, those of the filter's kind %d", ErrDamaged, h.width, r.width())
	}
	found.Segments++
	found.Bytes += int64(len(data))
	w := walk{Reading: r, found: found, data: data, header: h}
	if err := w.all(last); err != nil {
		return err
	}
	switch {
	case !w.sealed && (!last || seq < r.Reached):
		return fmt.Errorf("%w: it has no seal, though it is not the last, or was sealed", ErrDamaged)
	case !w.sealed && uint64(len(data)) < h.size && cutOff(data[w.end:], seq):
		return fmt.Errorf("%w: it has %d of its %d bytes, and records to the end", ErrDamaged, len(data), h.size)
	case !last || r.ReadOnly:
		return nil
	}
	return w.renew(path)
}
