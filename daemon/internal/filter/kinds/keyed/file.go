// Package keyed is what the kinds exact and timing share: keys in a table in memory, its
// reservations, and its file, which is a header and blocks of entries with checksums. The files
// differ in their magic and in whether an entry has a deadline.
package keyed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

// A file of entries is, integers little-endian:
//
//	offset  size  field
//	     0     8  magic of the format
//	     8     4  version: 1, or 2 where reservations follow the entries; 3 and 4: likewise, with
//	              short entries
//	    12     4  zero
//	    16     8  seed
//	    24     8  generation
//	    32     8  created, nanoseconds since 1970 UTC
//	    40     8  with deadlines, and in versions 2 and 4: the table's time when the file was
//	              written, milliseconds; else zero
//	    48     8  likewise the machine's clock at that moment, milliseconds since 1970 UTC
//	    56     8  sequence number of the first journal segment that is not covered
//	    64     8  number of entries
//	    72    52  zero
//	   124     4  CRC-32C of bytes 0 to 123
//	   128        blocks
//
// and a block, with entries of e bytes
//
//	   0     4  n, number of entries, at most 4096; 0 in the last block
//	   4    en  entries: Hi, Lo, and with deadlines the table's time at which it expires; a short
//	            entry is Hi alone
//	4+en     4  CRC-32C of all before
//
// Versions 2 and 4 have reservations after the last block: see reservations.go.
//
// It is written completely under another name and renamed, never changed in place: so a
// wrong checksum always means damage, never an interrupted write.
const (
	version      = 1
	reserving    = 1 // more in a version with reservations
	shortened    = 2 // more in one with short entries
	headBytes    = 128
	blockEntries = 4096
)

// Format is what distinguishes the files of two kinds.
type Format struct {
	Magic [8]byte
	// Deadlines says that entries have deadlines. Without, all are until table.Kept.
	Deadlines bool
	// Short says that entries are written without Lo. Which are read, their header says.
	Short bool
}

// EntryBytes is the size of an entry.
func (f Format) EntryBytes() int {
	switch {
	case f.Deadlines:
		return 24
	case f.Short:
		return 8
	}
	return 16
}

// Header is the part before the blocks.
type Header struct {
	Seed       uint64
	Generation uint64
	Created    time.Time
	Time, Wall int64  // the table's time and the machine's clock at one moment
	From       uint64 // the first journal segment that is not covered
	Count      uint64 // of entries; set by write
	Reserving  bool   // reservations follow the entries
	Short      bool   // entries have no Lo; set when it is read
}

func (f Format) encode(h Header) []byte {
	b := make([]byte, headBytes)
	le := binary.LittleEndian
	copy(b, f.Magic[:])
	v := uint32(version)
	if h.Reserving {
		v += reserving
	}
	if f.Short {
		v += shortened
	}
	le.PutUint32(b[8:], v)
	le.PutUint64(b[16:], h.Seed)
	le.PutUint64(b[24:], h.Generation)
	le.PutUint64(b[32:], uint64(h.Created.UnixNano()))
	le.PutUint64(b[40:], uint64(h.Time))
	le.PutUint64(b[48:], uint64(h.Wall))
	le.PutUint64(b[56:], h.From)
	le.PutUint64(b[64:], h.Count)
	le.PutUint32(b[124:], bloom.Checksum(b[:124]))
	return b
}

func (f Format) decodeHeader(b []byte) (h Header, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < headBytes:
		return h, fmt.Errorf("%w: header of %d bytes, want %d", bloom.ErrCorrupt, len(b), headBytes)
	case !bytes.Equal(b[:8], f.Magic[:]):
		return h, fmt.Errorf("%w: header begins with %q, want %q", bloom.ErrCorrupt, b[:8], f.Magic[:])
	case bloom.Checksum(b[:124]) != le.Uint32(b[124:]):
		return h, fmt.Errorf("%w: header checksum %08x, want %08x", bloom.ErrCorrupt, bloom.Checksum(b[:124]), le.Uint32(b[124:]))
	}
	v, newest := le.Uint32(b[8:]), uint32(version+reserving)
	if !f.Deadlines {
		newest += shortened
	}
	if v < version || v > newest {
		return h, fmt.Errorf("entries of format %d: this version reads format %d to %d; use a newer urifilter", v, version, newest)
	}
	return Header{
		Seed:       le.Uint64(b[16:]),
		Generation: le.Uint64(b[24:]),
		Created:    time.Unix(0, int64(le.Uint64(b[32:]))).UTC(),
		Time:       int64(le.Uint64(b[40:])),
		Wall:       int64(le.Uint64(b[48:])),
		From:       le.Uint64(b[56:]),
		Count:      le.Uint64(b[64:]),
		Reserving:  (v-version)&reserving != 0,
		Short:      (v-version)&shortened != 0,
	}, nil
}

// appendBlock appends a block of entries.
func (f Format) appendBlock(b []byte, entries []table.Entry) []byte {
	le := binary.LittleEndian
	start := len(b)
	b = le.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		b = le.AppendUint64(b, e.Key.Hi)
		if !f.Short {
			b = le.AppendUint64(b, e.Key.Lo)
		}
		if f.Deadlines {
			b = le.AppendUint64(b, uint64(e.Until))
		}
	}
	return le.AppendUint32(b, bloom.Checksum(b[start:]))
}

// write writes a file with the keys that are seen at the time now and, if the header is Reserving,
// the reservations. It returns the size of the file.
func (f Format) write(fs disk.FS, path string, h Header, keys *table.Table, now int64) (size int64, err error) {
	err = fs.WriteFile("entries", path, func(file *disk.File) error {
		h.Count = 0
		var entries []table.Entry
		var buf []byte
		at := int64(headBytes)
		flush := func() error {
			err := file.WriteAt("entries-write", buf, at)
			at, buf = at+int64(len(buf)), buf[:0]
			return err
		}
		for i := range table.Parts {
			entries = keys.Part(i, now, entries[:0])
			h.Count += uint64(len(entries))
			for rest := entries; len(rest) > 0; {
				n := min(len(rest), blockEntries)
				buf = f.appendBlock(buf, rest[:n])
				rest = rest[n:]
				if len(buf) > 1<<20 {
					if err := flush(); err != nil {
						return err
					}
				}
			}
		}
		buf = f.appendBlock(buf, nil)
		if h.Reserving {
			err := keys.EachReservation(func(r table.Reservation) error {
				if buf = appendReservation(buf, r); len(buf) > 1<<20 {
					return flush()
				}
				return nil
			})
			if err != nil {
				return err
			}
			buf = appendReserved(buf, table.Reservation{})
		}
		if err := flush(); err != nil {
			return err
		}
		size = at
		return file.WriteAt("entries-write", f.encode(h), 0)
	})
	return size, err
}

// decode reads a file of size bytes. It calls begin with the header, each with the entries of
// every intact block, and reserved with the reservation of each intact block of reservations.
// Damage is an error that wraps bloom.ErrCorrupt and says where; blocks after damaged entries
// are still read.
func (f Format) decode(r io.Reader, size int64, begin func(Header), each func([]table.Entry) error, reserved func(table.Reservation) error) (blocks int, err error) {
	head := make([]byte, headBytes)
	if n, err := io.ReadFull(r, head); err != nil && !isEnd(err) {
		return 0, err
	} else if n < headBytes {
		head = head[:n]
	}
	h, err := f.decodeHeader(head)
	if err != nil {
		return 0, err
	}
	f.Short = h.Short
	entryBytes := f.EntryBytes()
	if fit := uint64(size) / uint64(entryBytes); h.Count > fit {
		return 0, fmt.Errorf("%w: %d entries in %d bytes", bloom.ErrCorrupt, h.Count, size)
	}
	begin(h)
	var bad []error
	buf := make([]byte, 4+blockEntries*max(entryBytes, reservedBytes)+reservedHead+4)
	in := reading{r: r, at: headBytes, buf: buf}
	entries := make([]table.Entry, 0, blockEntries)
	count := uint64(0)
	for last := false; !last; {
		last, err = in.block(0, entryBytes, &bad, func(b []byte) error { return each(f.entries(entries[:0], b)) })
		if err != nil {
			return in.blocks, errors.Join(append(bad, err)...)
		}
		count += uint64(in.n)
	}
	for last := !h.Reserving; !last; {
		last, err = in.block(reservedHead, reservedBytes, &bad, func(b []byte) error { return reserved(reservation(b)) })
		if err != nil {
			return in.blocks, errors.Join(append(bad, err)...)
		}
	}
	if n, err := r.Read(buf[:1]); n > 0 {
		bad = append(bad, fmt.Errorf("%w: something follows the last block", bloom.ErrCorrupt))
	} else if err != nil && !errors.Is(err, io.EOF) {
		return blocks, err
	}
	if count != h.Count {
		bad = append(bad, fmt.Errorf("%w: it has %d entries, its header says %d", bloom.ErrCorrupt, count, h.Count))
	}
	return in.blocks, errors.Join(bad...)
}

// reading reads blocks.
type reading struct {
	r      io.Reader
	at     int64
	buf    []byte
	blocks int
	n      int // entries of the last one
}

// block reads a block of entries after a head, and calls each with both if it is intact; last
// says that it has no entries. Only a fault that ends the reading is an error.
func (in *reading) block(head, entryBytes int, bad *[]error, each func([]byte) error) (last bool, err error) {
	le := binary.LittleEndian
	if _, err := io.ReadFull(in.r, in.buf[:4]); isEnd(err) {
		return false, fmt.Errorf("%w: it ends at byte %d without its last block", bloom.ErrCorrupt, in.at)
	} else if err != nil {
		return false, err
	}
	in.n = int(le.Uint32(in.buf))
	if in.n > blockEntries {
		return false, fmt.Errorf("%w: block of %d entries at byte %d", bloom.ErrCorrupt, in.n, in.at)
	}
	block := in.buf[:4+head+in.n*entryBytes+4]
	if _, err := io.ReadFull(in.r, block[4:]); isEnd(err) {
		return false, fmt.Errorf("%w: it ends within the block at byte %d", bloom.ErrCorrupt, in.at)
	} else if err != nil {
		return false, err
	}
	sum := len(block) - 4
	if got, want := bloom.Checksum(block[:sum]), le.Uint32(block[sum:]); got != want {
		*bad = append(*bad, fmt.Errorf("%w: the block at byte %d has checksum %08x, want %08x", bloom.ErrCorrupt, in.at, got, want))
	} else if in.n > 0 {
		if err := each(block[4:sum]); err != nil {
			return false, err
		}
	}
	in.at += int64(len(block))
	in.blocks++
	return in.n == 0, nil
}

// entries appends the entries in b.
func (f Format) entries(dst []table.Entry, b []byte) []table.Entry {
	le := binary.LittleEndian
	for ; len(b) > 0; b = b[f.EntryBytes():] {
		e := table.Entry{Key: bloom.Hash{Hi: le.Uint64(b)}, Until: table.Kept}
		if !f.Short {
			e.Key.Lo = le.Uint64(b[8:])
		}
		if f.Deadlines {
			e.Until = int64(le.Uint64(b[16:]))
		}
		dst = append(dst, e)
	}
	return dst
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
