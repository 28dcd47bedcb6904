package warc

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha1" //nolint:gosec // as in Digest
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"strconv"
)

// Verify reads the files in dir up to a position that Sync has returned, and compares each block with its
// digest. It calls found for all that is damaged, and checked with the length of each block. The writer may be
// open. It returns an error only of ctx.
func Verify(ctx context.Context, dir string, to Position, o Options, found func(fault string), checked func(bytes int64)) error {
	w := &Writer{dir: dir, o: o.complete()}
	for i := 0; i < to.File || i == to.File && to.Offset > 0; i++ {
		end := int64(-1)
		if i == to.File {
			end = to.Offset
		}
		at, err := verifyFile(ctx, w.name(i), end, checked)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, os.ErrNotExist):
			found(err.Error())
		case err != nil:
			found(fmt.Sprintf("%s: record at byte %d: %v", w.name(i), at, err))
		case end < 0 && at < w.o.Size:
			found(fmt.Sprintf("%s: ends at byte %d, and was written up to %d at least", w.name(i), at, w.o.Size))
		}
	}
	return nil
}

// verifyFile reads a file up to a byte, or all of it if that is negative. It returns how far the file is sound.
func verifyFile(ctx context.Context, name string, end int64, checked func(bytes int64)) (at int64, err error) {
	f, err := os.Open(name) //nolint:gosec // in the folder of a crawl
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	from := &counter{from: bufio.NewReaderSize(f, 256<<10)}
	var z gzip.Reader
	for ctx.Err() == nil {
		at = from.n
		if at == end {
			return at, nil
		}
		if _, err := from.from.Peek(1); errors.Is(err, io.EOF) && end < 0 {
			return at, nil
		}
		length, err := verifyRecord(&z, from)
		if err == nil && end >= 0 && from.n > end {
			err = fmt.Errorf("it ends behind byte %d, up to which records were committed", end)
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return at, err
		}
		checked(length)
	}
	return at, ctx.Err()
}

// verifyRecord reads one record, and returns the length of its block.
func verifyRecord(z *gzip.Reader, from *counter) (length int64, err error) {
	if err := z.Reset(from); err != nil {
		return 0, err
	}
	z.Multistream(false)
	head := textproto.NewReader(bufio.NewReader(z))
	if version, err := head.ReadLine(); err != nil || version != "WARC/1.1" {
		return 0, errors.Join(fmt.Errorf("begins with %.20q, want WARC/1.1", version), err)
	}
	fields, err := head.ReadMIMEHeader()
	if err != nil {
		return 0, err
	}
	if length, err = strconv.ParseInt(fields.Get("Content-Length"), 10, 64); err != nil {
		return 0, err
	}
	sum := sha1.New() //nolint:gosec // as in Digest
	if _, err := io.CopyN(sum, head.R, length); err != nil {
		return 0, err
	}
	end, err := io.ReadAll(io.LimitReader(head.R, 5)) // with the check of the member by gzip
	if got := "sha1:" + base32.StdEncoding.EncodeToString(sum.Sum(nil)); err == nil && (string(end) != "\r\n\r\n" || got != fields.Get("WARC-Block-Digest")) {
		err = fmt.Errorf("%s: a block of %d bytes with the digest %s; %s was stored", fields.Get("WARC-Record-ID"), length, got, fields.Get("WARC-Block-Digest"))
	}
	return length, err
}

// counter counts what is read. It gives single bytes, so that gzip reads no further than its member.
type counter struct {
	from *bufio.Reader
	n    int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counter) ReadByte() (byte, error) {
	b, err := c.from.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}
