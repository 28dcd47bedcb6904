package journal

import (
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// All functions of this file but slots, room and writeSeal are called by the leader only.

// segment is a file with room for records from off on.
type segment struct {
	file     *disk.File
	size     int64
	off      int64
	overhead int64 // Journal.overhead

	dirty bool  // something was written since the last sync
	begun int64 // beginSync has begun writing up to here
}

// ahead is how much is written before the system is asked to begin putting it on disk. A call
// takes a twelfth of a millisecond.
const ahead = 1 << 20

// beginSync keeps the sync that ends a segment, or an interval, short in the modes in which
// batches wait for no sync: all batches that arrive during that one wait for it, 15 ms for a
// segment of 16 MiB, and a fifth of one where most of it was written before.
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

// room is how many keys and record headers still fit, not counting the seal.
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

// begin turns a spare into the segment j.seq. The header becomes durable before the name,
// so a segment with a bad header can only be a damaged one.
func (j *Journal) begin() error {
	j.mu.Lock()
	if len(j.spares) == 0 {
		j.mu.Unlock()
		return fmt.Errorf("segment %d: no space was reserved", j.seq)
	}
	s := j.spares[0]
	j.spares = j.spares[1:]
	j.mu.Unlock()

	h := header{seq: j.seq, generation: j.opt.Generation, mark: j.opt.Mark, size: uint64(s.size), sync: j.opt.Sync, width: j.opt.Width, ordered: true}
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

// seal ends the current segment, if there is one, and makes it durable. The records are synced
// first: any page that is written between two syncs may reach the disk before the others, and
// a seal says that everything before it is on disk.
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

func writeSeal(f *disk.File, seq uint64, off int64) error {
	rec := make([]byte, slot)
	putRecord(rec, sealMark, seq)
	if err := f.WriteAt("journal-seal", rec, off); err != nil {
		return err
	}
	return f.Sync("journal-seal-sync")
}
