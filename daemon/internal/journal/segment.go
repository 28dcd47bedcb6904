package journal

import (
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/durable"
)

// All functions of this file but writeSeal are called by the leader only.

// segment is a file with room for records from off on.
type segment struct {
	file     *durable.File
	size     int64
	off      int64
	overhead int64 // Journal.overhead

	dirty bool  // something was written since the last sync
	begun int64 // up to where beginSync has had it written
}

// ahead is how much is written before the system is told to begin with it. A call takes a
// twelfth of a millisecond.
const ahead = 1 << 20

// beginSync keeps the sync that ends a segment, or an interval, short where batches wait for
// none: all that arrive meanwhile wait for that one, 15 ms for a segment of 16 MiB, and a
// fifth of one where the most of it was written before.
func (s *segment) beginSync() {
	if s.off-s.begun < ahead {
		return
	}
	const page = 4 << 10 // the last one is still written to
	end := s.off &^ (page - 1)
	s.file.BeginSync(s.begun, end-s.begun)
	s.begun = end
}

// sync makes what was written durable.
func (s *segment) sync() error {
	if !s.dirty {
		return nil
	}
	if err := s.file.Sync("journal-sync"); err != nil {
		return err
	}
	s.dirty = false
	return nil
}

// room is how many keys and record headers still fit, the seal left out.
func (s *segment) room() int64 { return (s.size-s.off)/slot - 1 }

// slots is the part of room that may be promised to batches.
func (s *segment) slots() int64 { return max(0, s.room()-s.overhead) }

// writeRecord writes as many of the entries in buf as the current segment takes, as one
// record, and returns the rest. buf begins with a slot for the record's header, and so
// does the rest (it is the last slot written). It syncs only what it seals.
func (j *Journal) writeRecord(buf []byte) (rest []byte, err error) {
	width := int64(j.opt.Width)
	if j.cur != nil && j.cur.room() < 1+width {
		if err := j.seal(); err != nil {
			return nil, err
		}
	}
	if j.cur == nil {
		if err := j.begin(); err != nil {
			return nil, err
		}
	}
	n := min(int64(len(buf))/slot-1, j.cur.room()-1)
	n -= n % width
	rec := buf[:(n+1)*slot]
	putRecord(rec, uint32(n), j.seq)
	if err := j.cur.file.WriteAt("journal-write", rec, j.cur.off); err != nil {
		return nil, err
	}
	before := j.cur.slots()
	j.cur.dirty = true
	j.cur.off += int64(len(rec))
	j.mu.Lock()
	j.free -= before - j.cur.slots()
	j.grown += int64(len(rec))
	j.mu.Unlock()
	return buf[n*slot:], nil
}

// begin turns a spare into the segment j.seq. The header is durable before the name
// is, so that a segment without a sound header can only be a damaged one.
func (j *Journal) begin() error {
	j.mu.Lock()
	if len(j.spares) == 0 {
		j.mu.Unlock()
		return fmt.Errorf("segment %d: no space was reserved", j.seq)
	}
	s := j.spares[0]
	j.spares = j.spares[1:]
	j.mu.Unlock()

	h := header{seq: j.seq, generation: j.opt.Generation, size: uint64(s.size), sync: j.opt.Sync, width: j.opt.Width, ordered: true}
	if err := s.file.WriteAt("journal-header", h.encode(), 0); err != nil {
		return err
	}
	if err := s.file.Sync("journal-header-sync"); err != nil {
		return err
	}
	if err := j.opt.FS.Rename("journal-rename", s.file.Name(), segmentPath(j.opt.Dir, j.seq)); err != nil {
		return err
	}
	if err := j.dir.Sync("journal-syncdir"); err != nil {
		return err
	}
	j.cur = s
	return nil
}

// seal ends the current segment, if there is one, and makes it durable. The records come
// first: of what is written between two syncs any page may reach the disk, and a seal
// says that everything before it is there.
func (j *Journal) seal() error {
	if j.cur == nil {
		return nil
	}
	s := j.cur
	if err := s.sync(); err != nil {
		return err
	}
	if err := writeSeal(s.file, j.seq, s.off); err != nil {
		return err
	}
	j.cur = nil
	j.seq++
	return s.file.Close()
}

func writeSeal(f *durable.File, seq uint64, off int64) error {
	rec := make([]byte, slot)
	putRecord(rec, sealMark, seq)
	if err := f.WriteAt("journal-seal", rec, off); err != nil {
		return err
	}
	return f.Sync("journal-seal-sync")
}
