package body

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// Accepted are the codings that Decode knows, as an Accept-Encoding header.
const Accepted = "gzip, deflate, br, zstd"

const (
	maxCodings   = 2       // one on top of the other
	maxWindow    = 8 << 20 // bytes that a zstd frame may refer back to (RFC 9659)
	peekedBuffer = 4 << 10
)

// coders are the codings that Decode knows.
var coders = map[string]func(*bufio.Reader) (io.ReadCloser, error){
	"gzip": unzip, "x-gzip": unzip, "deflate": inflate, "x-deflate": inflate, "br": unbrotli, "zstd": unzstd,
}

// refused are codings that exist, and that Decode cannot undo: those that IANA has registered, and
// programs that compress.
var refused = []string{"aes128gcm", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip", "sdch", "lzma", "xz", "x-xz", "bzip2", "x-bzip2",
	"bz2", "lz4", "snappy", "x-snappy-framed", "zip", "7z", "lzip", "rar"}

// Decode undoes the codings of a Content-Encoding header. Reads of the result fail with a
// *CodingError if the coding is broken; an empty body is empty in any coding. What is no coding
// at all (UTF-8, none, binary, aws-chunked) changes nothing, as in browsers. The result must be
// closed, which does not close r.
func Decode(r io.Reader, contentEncoding string) (io.ReadCloser, error) {
	var codings []string
	for part := range strings.SplitSeq(contentEncoding, ",") {
		part = strings.ToLower(strings.Trim(part, " \t\"'"))
		if slices.Contains(refused, part) {
			return nil, &CodingError{part, errors.New("not known")}
		}
		if coders[part] == nil {
			continue
		}
		if codings = append(codings, part); len(codings) > maxCodings {
			return nil, &CodingError{contentEncoding, errors.New("too many codings")}
		}
	}
	var all []*decoder
	for i := len(codings) - 1; i >= 0; i-- {
		d := &decoder{coding: codings[i], from: bufio.NewReaderSize(r, peekedBuffer), open: coders[codings[i]]}
		all = append(all, d)
		r = d
	}
	return decoded{r, all}, nil
}

type decoded struct {
	io.Reader
	all []*decoder
}

// Close releases the decoders' memory. Read has already reported their errors.
func (d decoded) Close() error {
	for _, one := range d.all {
		if one.r != nil {
			_ = one.r.Close()
		}
	}
	return nil
}

// decoder undoes one coding. It is opened at the first byte.
type decoder struct {
	coding string
	from   *bufio.Reader
	open   func(*bufio.Reader) (io.ReadCloser, error)
	r      io.ReadCloser
	err    error // once there was one
}

func (d *decoder) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if d.r == nil {
		if _, d.err = d.from.Peek(1); d.err != nil {
			return 0, d.err // of its source, or the end
		}
		if d.r, d.err = d.open(d.from); d.err != nil {
			d.r, d.err = nil, &CodingError{d.coding, d.err}
			return 0, d.err
		}
	}
	n, err := d.r.Read(p)
	if err != nil && err != io.EOF {
		err = &CodingError{d.coding, err}
	}
	d.err = err
	return n, err
}

// unzip reads gzip members until something else follows, which it ignores, as browsers do.
func unzip(from *bufio.Reader) (io.ReadCloser, error) {
	z, err := gzip.NewReader(from)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &members{z, from}, nil
}

type members struct {
	z    *gzip.Reader
	from *bufio.Reader
}

func (m *members) Read(p []byte) (int, error) {
	n, err := m.z.Read(p)
	if err != io.EOF {
		return n, err
	}
	if magic, _ := m.from.Peek(2); string(magic) != "\x1f\x8b" {
		return n, io.EOF
	}
	if err := m.z.Reset(m.from); err != nil {
		return n, err
	}
	m.z.Multistream(false)
	return n, nil
}

func (m *members) Close() error { return m.z.Close() }

// inflate reads the zlib format, which the name stands for, or bare deflate, which some servers send.
func inflate(from *bufio.Reader) (io.ReadCloser, error) {
	head, _ := from.Peek(2)
	if len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(from)
	}
	return flate.NewReader(from), nil
}

func unbrotli(from *bufio.Reader) (io.ReadCloser, error) {
	return io.NopCloser(brotli.NewReader(from)), nil
}

func unzstd(from *bufio.Reader) (io.ReadCloser, error) {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
}
