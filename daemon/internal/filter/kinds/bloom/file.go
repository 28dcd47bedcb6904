package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// A bit-map file is, integers little-endian:
//
//	offset  size  field
//	     0   128  the bit-map's header (package bloom)
//	   128     8  sequence number of the first journal segment that is not covered
//	   136     4  CRC-32C of bytes 0 to 135
//	  4096     …  the bits, in stripes of 4 MiB, the last one of each layer
//	              shorter; stripes without a bit are holes
//	     …    4n  CRC-32C of each of the n stripes
//	     …     4  CRC-32C of these checksums
//
// It is written completely under another name and renamed, never changed in place: so a
// wrong checksum always means damage, never an interrupted write.
const (
	bitsOffset = 4096
	coverEnd   = 140
)

// write writes a snapshot of m. Adds may run concurrently: the file has everything added
// before the call. more, if not nil, may set further bits in each stripe.
func write(fs disk.FS, path string, m bitMap, from uint64, more func(i int, stripe []byte) error) error {
	h := m.Header()
	return fs.WriteFile("bitmap", path, func(f *disk.File) error {
		head, err := h.MarshalBinary()
		if err != nil {
			return err
		}
		head = binary.LittleEndian.AppendUint64(head, from)
		head = binary.LittleEndian.AppendUint32(head, bloom.Checksum(head))
		if err := f.WriteAt("bitmap-write", head, 0); err != nil {
			return err
		}
		buf := make([]byte, h.LargestStripe())
		var sums []byte
		at := int64(bitsOffset)
		for i := range h.Stripes() {
			stripe := m.Stripe(i, buf)
			if more != nil {
				if err := more(i, stripe); err != nil {
					return err
				}
			}
			sums = binary.LittleEndian.AppendUint32(sums, bloom.Checksum(stripe))
			if !zero(stripe) {
				if err := f.WriteAt("bitmap-write", stripe, at); err != nil {
					return err
				}
			}
			at += int64(len(stripe))
		}
		sums = binary.LittleEndian.AppendUint32(sums, bloom.Checksum(sums))
		return f.WriteAt("bitmap-write", sums, at)
	})
}

// readHead reads and checks the part before the bits.
func readHead(f io.ReaderAt) (h bloom.Header, from uint64, err error) {
	head := make([]byte, coverEnd)
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return h, 0, err
	}
	if err := h.UnmarshalBinary(head); err != nil {
		return h, 0, err
	}
	le := binary.LittleEndian
	if le.Uint32(head[136:]) != bloom.Checksum(head[:136]) {
		return h, 0, fmt.Errorf("%w: bytes 128 to 139 do not match their checksum", bloom.ErrCorrupt)
	}
	return h, le.Uint64(head[128:]), nil
}

// read reads the file into a new map. Damage is an error that wraps
// bloom.ErrCorrupt and lists every damaged stripe.
func read(path string) (m bitMap, from uint64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
			if m != nil {
				_ = m.Close()
			}
			m = nil
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, errors.Unwrap(err)
	}
	defer f.Close()
	h, from, err := readHead(f)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	n := h.Stripes()
	if want := bitsOffset + int64(h.Bytes()) + int64(n+1)*4; st.Size() != want {
		return nil, 0, fmt.Errorf("%w: it has %d bytes, its header asks for %d", bloom.ErrCorrupt, st.Size(), want)
	}
	sums := make([]byte, (n+1)*4)
	if _, err := f.ReadAt(sums, bitsOffset+int64(h.Bytes())); err != nil {
		return nil, 0, err
	}
	le := binary.LittleEndian
	if le.Uint32(sums[n*4:]) != bloom.Checksum(sums[:n*4]) {
		return nil, 0, fmt.Errorf("%w: the table of checksums does not match its own", bloom.ErrCorrupt)
	}
	if m, err = newBits(h); err != nil {
		return nil, 0, err
	}
	var bad []error
	buf := make([]byte, h.LargestStripe())
	for i, at := 0, int64(bitsOffset); i < n; i, at = i+1, at+int64(h.StripeSize(i)) {
		stripe := buf[:h.StripeSize(i)]
		if _, err := f.ReadAt(stripe, at); err != nil {
			return m, 0, err
		}
		if got, want := bloom.Checksum(stripe), le.Uint32(sums[i*4:]); got != want {
			bad = append(bad, fmt.Errorf("%w: stripe %d (bytes %d to %d) has checksum %08x, want %08x",
				bloom.ErrCorrupt, i, at, at+int64(len(stripe))-1, got, want))
			continue
		}
		if err := m.MergeStripe(i, stripe); err != nil {
			return m, 0, err
		}
	}
	return m, from, errors.Join(bad...)
}

func zero(b []byte) bool {
	for len(b) >= 8 {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	return true
}
