package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// unpacked reads what a source means: the text in a gzip or zstd file, and no lines of a
// file that has none. It looks at the first bytes when they come, never at a name.
type unpacked struct {
	source io.Reader
	text   io.Reader // nil: the first bytes were not seen yet
	packed atomic.Pointer[packing]
}

// packing is a form that a source is unpacked from.
type packing struct {
	name, program string
	magic         []byte
	open          func(io.Reader) (io.Reader, error)
}

var packings = []*packing{
	{"gzip", "zcat", []byte{0x1f, 0x8b}, func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"zstd", "zstdcat", []byte{0x28, 0xb5, 0x2f, 0xfd}, func(r io.Reader) (io.Reader, error) {
		// One decoder that works within Read needs no end; the window is what zstd itself unpacks unasked.
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	}},
}

// notText is the error for an input that holds no lines of items.
type notText struct{ what, hint string }

func (e *notText) Error() string { return e.what + ", want lines of UTF-8 text" }

// foreign are the beginnings of files that are refused by name, with what makes them text.
var foreign = []struct{ magic, what, hint string }{
	{"BZh91AY&SY", "bzip2", pipe("bzcat FILE")},
	{"\xfd7zXZ\x00", "xz", pipe("xzcat FILE")},
	{"\x04\x22\x4d\x18", "lz4", pipe("lz4 -dc FILE")},
	{"PK\x03\x04", "zip (or an office document)", pipe("unzip -p FILE")},
	{"7z\xbc\xaf\x27\x1c", "7-Zip", pipe("7z x -so FILE")},
	{"\xff\xfe\x00\x00", "UTF-32", pipe("iconv -f UTF-32 -t UTF-8 FILE")},
	{"\x00\x00\xfe\xff", "UTF-32", pipe("iconv -f UTF-32 -t UTF-8 FILE")},
	{"\xff\xfe", "UTF-16", pipe("iconv -f UTF-16 -t UTF-8 FILE")},
	{"\xfe\xff", "UTF-16", pipe("iconv -f UTF-16 -t UTF-8 FILE")},
	{"%PDF-", "PDF", "take the items out of it first, one a line"},
	{"SQLite format 3\x00", "an SQLite database", "`sqlite3 FILE 'select ...'` prints a column, one item a line"},
	{"PAR1\x15", "Parquet", "take the column out of it first, one item a line"},
}

func pipe(program string) string {
	return "`" + program + " | urifilter ...` reads it"
}

// Read implements [io.Reader]. What the first p holds is what is looked at.
func (u *unpacked) Read(p []byte) (n int, err error) {
	if u.text == nil {
		n, err = u.begin(p)
	} else {
		n, err = u.text.Read(p)
	}
	if k := u.packed.Load(); k != nil && err != nil && !errors.Is(err, io.EOF) && !errors.As(err, new(*notText)) {
		err = fmt.Errorf("%s: %w", k.name, err)
	}
	return n, err
}

// begin fills p with the beginning of what is to be read, and chooses what gives the rest.
func (u *unpacked) begin(p []byte) (n int, err error) {
	for r := u.source; ; {
		n, err = firstBytes(r, p)
		rest := r
		if err != nil {
			rest = ended{err}
		}
		k := packingOf(p[:n])
		if k == nil || u.packed.Load() != nil {
			u.text = rest
			if err := refuse(p[:min(n, sniffBytes)]); err != nil {
				return 0, err
			}
			return n, err
		}
		u.packed.Store(k)
		if r, err = k.open(io.MultiReader(bytes.NewReader(bytes.Clone(p[:n])), rest)); err != nil {
			return 0, err
		}
	}
}

func packingOf(first []byte) *packing {
	for _, k := range packings {
		if bytes.HasPrefix(first, k.magic) {
			return k
		}
	}
	return nil
}

// ended is a source after its end.
type ended struct{ err error }

func (e ended) Read([]byte) (int, error) { return 0, e.err }

// rest is the command that prints the input from a line on.
func (u *unpacked) rest(line int64) string {
	tail := fmt.Sprintf("tail -n +%d", line)
	if u != nil {
		if k := u.packed.Load(); k != nil {
			return k.program + " FILE | " + tail
		}
	}
	return tail
}

// sniffBytes is how far a zero byte is looked for.
const sniffBytes = 4096

// firstBytes reads what comes first, and on while that may be the beginning of what is
// looked for: a line that somebody types is not kept waiting for another.
func firstBytes(r io.Reader, p []byte) (n int, err error) {
	for err == nil && n < len(p) && (n == 0 || unfinished(p[:n])) {
		var more int
		more, err = r.Read(p[n:])
		n += more
	}
	return n, err
}

// unfinished says that b is the beginning of a mark that needs more bytes to be known.
func unfinished(b []byte) bool {
	for _, k := range packings {
		if len(b) < len(k.magic) && bytes.HasPrefix(k.magic, b) {
			return true
		}
	}
	for _, f := range foreign {
		if len(b) < len(f.magic) && string(b) == f.magic[:len(b)] {
			return true
		}
	}
	return false
}

// refuse says why a file that begins so holds no lines of text; nil: it may.
func refuse(first []byte) error {
	for _, f := range foreign {
		if bytes.HasPrefix(first, []byte(f.magic)) {
			return &notText{f.what, f.hint}
		}
	}
	at := bytes.IndexByte(first, 0)
	if at < 0 {
		return nil
	}
	if order := wide(first); order != "" {
		return &notText{"UTF-16 without a byte order mark", pipe("iconv -f " + order + " -t UTF-8 FILE")}
	}
	return &notText{fmt.Sprintf("a binary file (byte %d is zero)", at), "`file FILE` may know what it is; of items that end with a zero byte, `tr '\\0' '\\n'` makes lines"}
}

// wide tells text of two bytes a character, mostly ASCII, by where its zeroes are.
func wide(b []byte) string {
	var zeroes [2]int
	for i, c := range b {
		if c == 0 {
			zeroes[i%2]++
		}
	}
	switch half := len(b) / 2; {
	case half > 0 && zeroes[0] == 0 && zeroes[1]*10 >= half*9:
		return "UTF-16LE"
	case half > 0 && zeroes[1] == 0 && zeroes[0]*10 >= half*9:
		return "UTF-16BE"
	}
	return ""
}
