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

// writeRecord writes as many of the entries of a group as the current segment takes, as one
// record, and returns the rest: until the sync, any page of it may be missing, and a whole record after
// it would make that look like damage. Each part of the group begins with a slot for a record's header, and
// so does the rest (it is the last slot written). It syncs only what it seals.
func (j *Journal) writeRecord(group [][]byte) (rest [][]byte, err error) {
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
	room := j.cur.room() - 1
	room -= room % width
	var rec [][]byte
	n := int64(0)
	for len(group) > 0 && n < room {
		part := group[0]
		took := min(int64(len(part))/slot-1, room-n)
		if group[0] = part[took*slot:]; len(group[0]) == slot {
			group = group[1:]
		}
		if part = part[:(took+1)*slot]; n > 0 {
			part = part[slot:]
		}
		rec, n = append(rec, part), n+took
	}
	putRecord(rec[0], uint32(n), j.seq, rec[1:]...)
	before, from := j.cur.slots(), j.cur.off
	j.cur.dirty = true
	for _, part := range rec {
		if err := j.cur.file.WriteAt("journal-write", part, j.cur.off); err != nil {
			return nil, err
		}
		j.cur.off += int64(len(part))
	}
	j.mu.Lock()
	j.free -= before - j.cur.slots()
	j.grown += j.cur.off - from
	j.mu.Unlock()
	return group, nil
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
