package timing

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// A file of entries is, integers little-endian:
//
//	offset  size  field
//	     0     8  magic "URITIMES"
//	     8     4  version, 1
//	    12     4  zero
//	    16     8  seed
//	    24     8  generation
//	    32     8  created, nanoseconds since 1970 UTC
//	    40     8  the table's time when the file was written, milliseconds
//	    48     8  the machine's clock at that moment, milliseconds since 1970 UTC
//	    56     8  sequence number of the first journal segment that is not covered
//	    64     8  number of entries
//	    72    52  zero
//	   124     4  CRC-32C of bytes 0 to 123
//	   128        blocks
//
// and a block
//
//	     0     4  n, number of entries, at most 4096; 0 in the last block
//	     4   24n  entries: Hi, Lo, the table's time at which it expires
//	4+24n     4  CRC-32C of all before
//
// It is written whole to another name and renamed, never changed in place: so a
// checksum that does not match is always damage, never a write that was cut short.
const (
	entriesVersion = 1
	entriesHead    = 128
	entryBytes     = 24
	blockEntries   = 4096
)

var entriesMagic = [8]byte{'U', 'R', 'I', 'T', 'I', 'M', 'E', 'S'}

// header is what stands before the blocks.
type header struct {
	seed       uint64
	generation uint64
	created    time.Time
	clocks     timing.Reading
	from       uint64
	count      uint64
}

func (h header) encode() []byte {
	b := make([]byte, entriesHead)
	le := binary.LittleEndian
	copy(b, entriesMagic[:])
	le.PutUint32(b[8:], entriesVersion)
	le.PutUint64(b[16:], h.seed)
	le.PutUint64(b[24:], h.generation)
	le.PutUint64(b[32:], uint64(h.created.UnixNano()))
	le.PutUint64(b[40:], uint64(h.clocks.Table))
	le.PutUint64(b[48:], uint64(h.clocks.Wall))
	le.PutUint64(b[56:], h.from)
	le.PutUint64(b[64:], h.count)
	le.PutUint32(b[124:], bloom.Checksum(b[:124]))
	return b
}

func decodeHeader(b []byte) (h header, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < entriesHead:
		return h, fmt.Errorf("%w: header of %d bytes, want %d", bloom.ErrCorrupt, len(b), entriesHead)
	case !bytes.Equal(b[:8], entriesMagic[:]):
		return h, fmt.Errorf("%w: header begins with %q, want %q", bloom.ErrCorrupt, b[:8], entriesMagic[:])
	case bloom.Checksum(b[:124]) != le.Uint32(b[124:]):
		return h, fmt.Errorf("%w: header checksum %08x, want %08x", bloom.ErrCorrupt, bloom.Checksum(b[:124]), le.Uint32(b[124:]))
	}
	if v := le.Uint32(b[8:]); v != entriesVersion {
		return h, fmt.Errorf("entries of format %d: this version reads format %d; use a newer urifilter", v, entriesVersion)
	}
	return header{
		seed:       le.Uint64(b[16:]),
		generation: le.Uint64(b[24:]),
		created:    time.Unix(0, int64(le.Uint64(b[32:]))).UTC(),
		clocks:     timing.Reading{Table: int64(le.Uint64(b[40:])), Wall: int64(le.Uint64(b[48:]))},
		from:       le.Uint64(b[56:]),
		count:      le.Uint64(b[64:]),
	}, nil
}

// appendBlock appends the block of some entries.
func appendBlock(b []byte, entries []timing.Entry) []byte {
	le := binary.LittleEndian
	start := len(b)
	b = le.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		b = le.AppendUint64(b, e.Key.Hi)
		b = le.AppendUint64(b, e.Key.Lo)
		b = le.AppendUint64(b, uint64(e.Until))
	}
	return le.AppendUint32(b, bloom.Checksum(b[start:]))
}

// write writes a snapshot of the table, and tells its size. Adds may go on: what
// was added before the call and has not expired is in the file.
func write(fs durable.FS, path string, t *timing.Table, h header) (size int64, err error) {
	err = fs.WriteFile("entries", path, func(f *durable.File) error {
		h.count = 0
		var entries []timing.Entry
		var buf []byte
		at := int64(entriesHead)
		flush := func() error {
			err := f.WriteAt("entries-write", buf, at)
			at, buf = at+int64(len(buf)), buf[:0]
			return err
		}
		for i := range timing.Parts {
			entries = t.Part(i, entries[:0])
			h.count += uint64(len(entries))
			for rest := entries; len(rest) > 0; {
				n := min(len(rest), blockEntries)
				buf = appendBlock(buf, rest[:n])
				rest = rest[n:]
				if len(buf) > 1<<20 {
					if err := flush(); err != nil {
						return err
					}
				}
			}
		}
		buf = appendBlock(buf, nil)
		if err := flush(); err != nil {
			return err
		}
		size = at
		return f.WriteAt("entries-write", h.encode(), 0)
	})
	return size, err
}

// decode reads a file of size bytes. It calls begin with the header, and then
// each with the entries of every block that is whole. Damage is an error that wraps
// bloom.ErrCorrupt and says where; what follows damaged entries of a block is still read.
func decode(r io.Reader, size int64, begin func(header) error, each func([]timing.Entry) error) (blocks int, err error) {
	head := make([]byte, entriesHead)
	if n, err := io.ReadFull(r, head); err != nil && !isEnd(err) {
		return 0, err
	} else if n < entriesHead {
		head = head[:n]
	}
	h, err := decodeHeader(head)
	if err != nil {
		return 0, err
	}
	if most := uint64(size) / entryBytes; h.count > most {
		return 0, fmt.Errorf("%w: %d entries in %d bytes", bloom.ErrCorrupt, h.count, size)
	}
	if err := begin(h); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	var bad []error
	buf := make([]byte, 4+blockEntries*entryBytes+4)
	entries := make([]timing.Entry, 0, blockEntries)
	count := uint64(0)
	for at := int64(entriesHead); ; blocks++ {
		if _, err := io.ReadFull(r, buf[:4]); isEnd(err) {
			return blocks, errors.Join(append(bad, fmt.Errorf("%w: it ends at byte %d without its last block", bloom.ErrCorrupt, at))...)
		} else if err != nil {
			return blocks, err
		}
		n := int64(le.Uint32(buf))
		if n > blockEntries {
			return blocks, errors.Join(append(bad, fmt.Errorf("%w: block of %d entries at byte %d", bloom.ErrCorrupt, n, at))...)
		}
		block := buf[:4+n*entryBytes+4]
		if _, err := io.ReadFull(r, block[4:]); isEnd(err) {
			return blocks, errors.Join(append(bad, fmt.Errorf("%w: it ends within the block at byte %d", bloom.ErrCorrupt, at))...)
		} else if err != nil {
			return blocks, err
		}
		sum := len(block) - 4
		if got, want := bloom.Checksum(block[:sum]), le.Uint32(block[sum:]); got != want {
			bad = append(bad, fmt.Errorf("%w: the block at byte %d has checksum %08x, want %08x", bloom.ErrCorrupt, at, got, want))
		} else {
			entries = entries[:0]
			for b := block[4:sum]; len(b) > 0; b = b[entryBytes:] {
				entries = append(entries, timing.Entry{Key: bloom.Hash{Hi: le.Uint64(b), Lo: le.Uint64(b[8:])}, Until: int64(le.Uint64(b[16:]))})
			}
			if err := each(entries); err != nil {
				return blocks, err
			}
		}
		count += uint64(n)
		at += int64(len(block))
		if n == 0 {
			break
		}
	}
	if n, err := r.Read(buf[:1]); n > 0 {
		bad = append(bad, fmt.Errorf("%w: something follows the last block", bloom.ErrCorrupt))
	} else if err != nil && !errors.Is(err, io.EOF) {
		return blocks, err
	}
	if count != h.count {
		bad = append(bad, fmt.Errorf("%w: it has %d entries, its header says %d", bloom.ErrCorrupt, count, h.count))
	}
	return blocks + 1, errors.Join(bad...)
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// read reads the file into a new table whose time is that of now.
func read(path string, clock timing.Clock) (m *entries, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
			if m != nil {
				err = errors.Join(err, m.Free())
			}
			m = nil
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	begin := func(h header) error {
		m = &entries{head: h, table: timing.Resume(clock, h.clocks)}
		if h.count == 0 {
			return nil
		}
		return m.table.Reserve(int(h.count))
	}
	read, err := decode(bufio.NewReaderSize(f, 1<<20), st.Size(), begin, func(all []timing.Entry) error { return m.table.Put(all...) })
	if m != nil {
		m.read = read
		m.wrote(m.head.clocks, st.Size())
	}
	return m, err
}
