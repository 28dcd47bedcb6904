package filter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/sniff"
)

// unpacked reads the text of a source: that in a gzip or zstd file, and none of a file that does
// not hold lines of text. It decides by the first bytes when they come, never by a name.
type unpacked struct {
	source io.Reader
	text   io.Reader // nil: the first bytes were not seen yet
	packed atomic.Pointer[packing]
	odd    *sniff.Odd // what the text is if it is hardly a list of items; set before the first Read returns
	taken  bool       // items are taken out of the text, so that their lines are not those of the file
	binary bool       // what is taken out of may be no text
	again  string     // how the rest is given, if not by a part of the file
}

// packing is a form that a source is unpacked from.
type packing struct {
	name, program string
	magic         []byte
	open          func(io.Reader) (io.Reader, error)
}

var packings = []*packing{
	{"gzip", "zcat", sniff.Gzip, func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"zstd", "zstdcat", sniff.Zstd, func(r io.Reader) (io.Reader, error) {
		// With one decoder, which works within Read, no Close is needed; the window is what zstd accepts by default.
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
	}},
}

// notText is the error for an input in which there are no items.
type notText struct{ what, hint string }

func (e *notText) Error() string { return e.what }

// Hint is the next step.
func (e *notText) Hint() string { return e.hint }

const wantLines = ", want lines of UTF-8 text"

func pipe(program string) string {
	return "`" + program + " | urifilter ...` reads it"
}

// Read implements [io.Reader]. The format is chosen by what fits in the first p.
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

// begin fills p with the beginning of the text, and chooses the reader of the rest.
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
			if u.binary {
				return n, err
			}
			if err := refuse(p[:n]); err != nil {
				return 0, err
			}
			u.odd = sniff.LookOdd(p[:n])
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

// ended is a source that has ended.
type ended struct{ err error }

func (e ended) Read([]byte) (int, error) { return 0, e.err }

// rest returns what gives the input from a line on.
func (u *unpacked) rest(line int64) string {
	switch {
	case u != nil && u.again != "":
		return u.again
	case u != nil && u.taken:
		return "the same file once more"
	}
	tail := fmt.Sprintf("tail -n +%d", line)
	if u != nil {
		if k := u.packed.Load(); k != nil {
			return k.program + " FILE | " + tail
		}
	}
	return tail
}

// firstBytes reads the first bytes, and goes on only while they may begin a known format:
// a line that somebody types does not wait for another.
func firstBytes(r io.Reader, p []byte) (n int, err error) {
	for err == nil && n < len(p) && (n == 0 || sniff.Unfinished(p[:n])) {
		var more int
		more, err = r.Read(p[n:])
		n += more
	}
	return n, err
}

// refuse says why a file that begins with these bytes cannot hold lines of text; nil: it may.
func refuse(first []byte) error {
	f := sniff.Look(first)
	switch {
	case f == nil:
		return nil
	case f.Program != "":
		return &notText{f.What + wantLines, pipe(f.Program)}
	}
	return &notText{f.What + wantLines, f.Advice}
}
