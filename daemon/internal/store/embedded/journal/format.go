package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// A segment file is named journal-<sequence in 16 hex digits>, has its full size from
// the start, and holds, all integers little-endian:
//
//	offset  size  field
//	     0     8  magic "URIJRNL1"
//	     8     8  sequence number, from 1, without gaps
//	    16     8  generation of the bit-map
//	    24     8  size of the file in bytes
//	    32     4  sync: 0 always, 1 interval, 2 none
//	    36     4  slots of an entry, if more than 1, else 0
//	    40     4  1: what stands before a seal was durable before the seal was written;
//	          0 in segments of older versions, which could not promise it
//	    44     8  mark of the filter; 0 in segments of older versions
//	    52     8  zero
//	    60     4  CRC-32C of bytes 0 to 59
//	    64        records
//
// An entry is a key, or a key and what goes with it, in slots of the size of a key. A
// record is a group of entries that became durable together, n slots in all:
//
//	 0     4  n; 0xffffffff in the seal, which ends the segment
//	 4     4  CRC-32C of bytes 8 to 16+16n (to 16 in a seal) followed by n
//	 8     8  sequence number of the segment
//	16   16n  slots: Hi, Lo
//
// Segments are written in order: with Sync Always each record is synced before the next
// is begun, and in every mode all of them before the seal, the seal before the next
// segment. A file may be reused for another segment, so the bytes after the last record
// may be anything; the sequence number in each record keeps old ones from counting.
// A segment is sealed when it is full, when the journal is closed, and by recovery.
// So an unsealed segment is the last one, and its end is what a crash left; the one
// record that may be torn there was never acknowledged. (In the other modes, any page that
// was written since the last sync may be missing.)
const (
	headerSize = 64
	slot       = 16 // of keys and record headers alike
	sealMark   = 0xffffffff
)

var (
	magic      = [8]byte{'U', 'R', 'I', 'J', 'R', 'N', 'L', '1'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

type header struct {
	seq        uint64
	generation uint64
	mark       uint64
	size       uint64
	sync       Sync
	width      int
	ordered    bool // what stands before a seal was durable before it
}

func (h header) encode() []byte {
	b := make([]byte, headerSize)
	le := binary.LittleEndian
	copy(b, magic[:])
	le.PutUint64(b[8:], h.seq)
	le.PutUint64(b[16:], h.generation)
	le.PutUint64(b[24:], h.size)
	le.PutUint32(b[32:], uint32(h.sync))
	if h.width > 1 {
		le.PutUint32(b[36:], uint32(h.width))
	}
	if h.ordered {
		le.PutUint32(b[40:], 1)
	}
	le.PutUint64(b[44:], h.mark)
	le.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

func decodeHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if len(b) < headerSize {
		return header{}, fmt.Errorf("%w: %d bytes, less than its header", ErrDamaged, len(b))
	}
	if !bytes.Equal(b[:8], magic[:]) || crc32.Checksum(b[:60], castagnoli) != le.Uint32(b[60:]) {
		return header{}, fmt.Errorf("%w: its header does not match its checksum", ErrDamaged)
	}
	return header{
		seq:        le.Uint64(b[8:]),
		generation: le.Uint64(b[16:]),
		size:       le.Uint64(b[24:]),
		sync:       Sync(le.Uint32(b[32:])),
		width:      int(max(1, le.Uint32(b[36:]))),
		ordered:    le.Uint32(b[40:]) == 1,
		mark:       le.Uint64(b[44:]),
	}, nil
}

// putRecord writes the record header into rec[:16]; rec[16:] holds the keys, and more those that follow.
func putRecord(rec []byte, n uint32, seq uint64, more ...[]byte) {
	le := binary.LittleEndian
	le.PutUint32(rec, n)
	le.PutUint64(rec[8:], seq)
	le.PutUint32(rec[4:], recordSum(rec[8:], n, more...))
}

func recordSum(body []byte, n uint32, more ...[]byte) uint32 {
	sum := crc32.Checksum(body, castagnoli)
	for _, b := range more {
		sum = crc32.Update(sum, castagnoli, b)
	}
	var count [4]byte
	binary.LittleEndian.PutUint32(count[:], n)
	return crc32.Update(sum, castagnoli, count[:])
}

// record reads the record at the start of b. ok is false when there is none that is
// whole and of segment seq.
func record(b []byte, seq uint64) (keys []byte, seal, ok bool) {
	le := binary.LittleEndian
	if len(b) < slot || le.Uint64(b[8:]) != seq {
		return nil, false, false
	}
	n := le.Uint32(b)
	if n == sealMark {
		return nil, true, recordSum(b[8:slot], n) == le.Uint32(b[4:])
	}
	end := slot + int64(n)*slot
	if n == 0 || end > int64(len(b)) {
		return nil, false, false
	}
	return b[slot:end], false, recordSum(b[8:end], n) == le.Uint32(b[4:])
}

func appendKey(b []byte, key bloom.Hash) []byte {
	b = binary.LittleEndian.AppendUint64(b, key.Hi)
	return binary.LittleEndian.AppendUint64(b, key.Lo)
}

func decodeKeys(dst []bloom.Hash, b []byte) []bloom.Hash {
	for ; len(b) >= slot; b = b[slot:] {
		dst = append(dst, bloom.Hash{Hi: binary.LittleEndian.Uint64(b), Lo: binary.LittleEndian.Uint64(b[8:])})
	}
	return dst
}

const (
	segmentPrefix = "journal-"
	sparePrefix   = "spare-"
)

func segmentPath(dir string, seq uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%s%016x", segmentPrefix, seq))
}

// segments lists the sequence numbers of the segment files among names, in order.
func segments(names []string) []uint64 {
	var all []uint64
	for _, name := range names {
		hex, ok := strings.CutPrefix(name, segmentPrefix)
		if !ok || len(hex) != 16 {
			continue
		}
		if seq, err := strconv.ParseUint(hex, 16, 64); err == nil {
			all = append(all, seq)
		}
	}
	slices.Sort(all)
	return all
}
