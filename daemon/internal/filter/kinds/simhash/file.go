package simhash

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/simhash"
)

// A file of fingerprints is, integers little-endian:
//
//	offset  size  field
//	     0     8  "URISIMIL"
//	     8     4  version, 1
//	    12     1  distance, up to which documents can be found
//	    13     1  hash of the features: 1 is xxh3, 2 md5
//	    14     2  zero
//	    16     8  seed
//	    24     8  generation
//	    32     8  created, nanoseconds since 1970 UTC
//	    40     8  sequence number of the first journal segment that is not covered
//	    48     8  number of documents
//	    56    68  zero
//	   124     4  CRC-32C of bytes 0 to 123
//	   128        blocks
//
// and a block
//
//	  0     4  n, bytes of its documents, at most 131072; 0 in the last block
//	  4     n  documents: fingerprint (8), length of the id (2), id
//	4+n     4  CRC-32C of all before
//
// Documents are in the order in which their fingerprints came. The file is written completely
// under another name and renamed, never changed in place: so a wrong checksum always means
// damage, never an interrupted write.
const (
	version    = 1
	headBytes  = 128
	blockBytes = 64 << 10 // the size from which a block ends
	maxBytes   = 128 << 10
	docBytes   = 8 + 2 // before the id
)

var magic = [8]byte{'U', 'R', 'I', 'S', 'I', 'M', 'I', 'L'}

// hashes are the feature hashes by their numbers.
var hashes = map[byte]simhash.FeatureHash{1: simhash.XXH3, 2: simhash.MD5}

// header is the part before the blocks.
type header struct {
	distance         int
	hash             simhash.FeatureHash
	seed, generation uint64
	created          time.Time
	from             uint64 // the first journal segment that is not covered
	count            uint64 // of documents
}

func (h header) encode() []byte {
	b := make([]byte, headBytes)
	le := binary.LittleEndian
	copy(b, magic[:])
	le.PutUint32(b[8:], version)
	b[12] = byte(h.distance)
	for number, hash := range hashes {
		if hash == h.hash {
			b[13] = number
		}
	}
	le.PutUint64(b[16:], h.seed)
	le.PutUint64(b[24:], h.generation)
	le.PutUint64(b[32:], uint64(h.created.UnixNano()))
	le.PutUint64(b[40:], h.from)
	le.PutUint64(b[48:], h.count)
	le.PutUint32(b[124:], bloom.Checksum(b[:124]))
	return b
}

func decodeHeader(b []byte) (h header, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < headBytes:
		return h, fmt.Errorf("%w: header of %d bytes, want %d", bloom.ErrCorrupt, len(b), headBytes)
	case !bytes.Equal(b[:8], magic[:]):
		return h, fmt.Errorf("%w: header begins with %q, want %q", bloom.ErrCorrupt, b[:8], magic[:])
	case bloom.Checksum(b[:124]) != le.Uint32(b[124:]):
		return h, fmt.Errorf("%w: header checksum %08x, want %08x", bloom.ErrCorrupt, bloom.Checksum(b[:124]), le.Uint32(b[124:]))
	}
	if v := le.Uint32(b[8:]); v != version {
		return h, fmt.Errorf("fingerprints of format %d: this version reads format %d; use a newer urifilter", v, version)
	}
	h = header{
		distance: int(b[12]), hash: hashes[b[13]],
		seed: le.Uint64(b[16:]), generation: le.Uint64(b[24:]), created: time.Unix(0, int64(le.Uint64(b[32:]))).UTC(),
		from: le.Uint64(b[40:]), count: le.Uint64(b[48:]),
	}
	if h.distance > simhash.MaxDistance || h.hash == "" {
		return h, fmt.Errorf("fingerprints for a distance of %d, by hash %d: this version knows distances up to %d, and hashes 1 and 2; use a newer urifilter", h.distance, b[13], simhash.MaxDistance)
	}
	return h, nil
}

func appendDocument(b []byte, d simhash.Document) []byte {
	b = binary.LittleEndian.AppendUint64(b, d.Fingerprint)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(d.ID)))
	return append(b, d.ID...)
}

// endBlock ends the block at start, whose length is now known.
func endBlock(b []byte, start int) []byte {
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return binary.LittleEndian.AppendUint32(b, bloom.Checksum(b[start:]))
}

// writeFile writes the documents in the index at the time of the call, and maybe later ones.
func writeFile(fs disk.FS, path string, h header, index *simhash.Index) error {
	const step = 4096 // fingerprints
	return fs.WriteFile("fingerprints", path, func(file *disk.File) error {
		at, all := int64(headBytes), index.Fingerprints()
		var docs []simhash.Document
		var buf []byte
		start := 0 // of the present block
		h.count = 0
		for from := 0; ; from += step {
			docs = index.Documents(from, min(from+step, all), docs[:0])
			h.count += uint64(len(docs))
			for _, d := range docs {
				if len(buf) == start {
					buf = append(buf, 0, 0, 0, 0)
				}
				if buf = appendDocument(buf, d); len(buf)-start > blockBytes {
					buf = endBlock(buf, start)
					start = len(buf)
				}
			}
			last := from+step >= all
			if last {
				if len(buf) > start {
					buf = endBlock(buf, start)
				}
				buf = endBlock(append(buf, 0, 0, 0, 0), len(buf))
				start = len(buf)
			}
			if err := file.WriteAt("fingerprints-write", buf[:start], at); err != nil {
				return err
			}
			at += int64(start)
			buf, start = append(buf[:0], buf[start:]...), 0
			if last {
				return file.WriteAt("fingerprints-write", h.encode(), 0)
			}
		}
	})
}

// readFile reads the file, and returns its number of blocks. Damage is an error that wraps
// bloom.ErrCorrupt.
func readFile(path string, begin func(header) error, each func(simhash.Document)) (blocks int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if blocks, err = decode(bufio.NewReaderSize(file, int(min(st.Size(), 1<<20))), begin, each); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return blocks, nil
}

// decode reads a file: it calls begin with the header, and each with every document of an intact
// block. Blocks after a damaged one are still read.
func decode(r io.Reader, begin func(header) error, each func(simhash.Document)) (blocks int, err error) {
	head := make([]byte, headBytes)
	n, err := io.ReadFull(r, head)
	if err != nil && !isEnd(err) {
		return 0, err
	}
	h, err := decodeHeader(head[:n])
	if err != nil {
		return 0, err
	}
	if err := begin(h); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	var bad []error
	count := uint64(0)
	buf := make([]byte, 4+maxBytes+4)
	for at := int64(headBytes); ; blocks++ {
		if _, err := io.ReadFull(r, buf[:4]); isEnd(err) {
			return blocks, errors.Join(append(bad, fmt.Errorf("%w: it ends at byte %d without its last block", bloom.ErrCorrupt, at))...)
		} else if err != nil {
			return blocks, err
		}
		size := le.Uint32(buf)
		if size > maxBytes {
			return blocks, errors.Join(append(bad, fmt.Errorf("%w: block of %d bytes at byte %d", bloom.ErrCorrupt, size, at))...)
		}
		block := buf[:4+size+4]
		if _, err := io.ReadFull(r, block[4:]); isEnd(err) {
			return blocks, errors.Join(append(bad, fmt.Errorf("%w: it ends within the block at byte %d", bloom.ErrCorrupt, at))...)
		} else if err != nil {
			return blocks, err
		}
		if got, want := bloom.Checksum(block[:4+size]), le.Uint32(block[4+size:]); got != want {
			bad = append(bad, fmt.Errorf("%w: the block at byte %d has checksum %08x, want %08x", bloom.ErrCorrupt, at, got, want))
		} else if n, err := documents(block[4:4+size], each); err != nil {
			bad = append(bad, fmt.Errorf("%w: the block at byte %d: %w", bloom.ErrCorrupt, at, err))
		} else {
			count += n
		}
		at += int64(len(block))
		if size == 0 {
			break
		}
	}
	if n, err := r.Read(buf[:1]); n > 0 {
		bad = append(bad, fmt.Errorf("%w: something follows the last block", bloom.ErrCorrupt))
	} else if err != nil && !errors.Is(err, io.EOF) {
		return blocks, err
	}
	if count != h.count && len(bad) == 0 {
		bad = append(bad, fmt.Errorf("%w: it has %d documents, its header says %d", bloom.ErrCorrupt, count, h.count))
	}
	return blocks + 1, errors.Join(bad...)
}

// documents splits a block into documents.
func documents(b []byte, each func(simhash.Document)) (n uint64, err error) {
	for ; len(b) > 0; n++ {
		if len(b) < docBytes {
			return n, fmt.Errorf("%d bytes are left after document %d", len(b), n)
		}
		end := docBytes + int(binary.LittleEndian.Uint16(b[8:]))
		if end > len(b) || end == docBytes || end > docBytes+simhash.MaxID {
			return n, fmt.Errorf("document %d has an id of %d bytes", n, end-docBytes)
		}
		each(simhash.Document{ID: b[docBytes:end], Fingerprint: binary.LittleEndian.Uint64(b)})
		b = b[end:]
	}
	return n, nil
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
