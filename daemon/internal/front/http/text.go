package http

import (
	"bytes"
	"io"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/sniff"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// linesOf is a stream of lines whose first bytes are checked: otherwise the lines of a packed or
// binary file would be remembered forever as items. It calls odd, if that is not nil, before the first lines of
// text that hardly holds an item a line.
func linesOf(src io.Reader, odd func(*sniff.Odd)) io.Reader { return &textReader{src: src, odd: odd} }

type textReader struct {
	src    io.Reader
	odd    func(*sniff.Odd)
	looked bool
}

// Read implements [io.Reader]. Its error for data that is not text is a [problem.Error].
func (t *textReader) Read(p []byte) (n int, err error) {
	if t.looked {
		return t.src.Read(p)
	}
	t.looked = true
	for err == nil && n < len(p) && (n == 0 || sniff.Unfinished(p[:n])) {
		var more int
		more, err = t.src.Read(p[n:])
		n += more
	}
	if bad := notText(p[:n]); bad != nil {
		return 0, bad
	}
	if t.odd != nil {
		if odd := sniff.LookOdd(p[:n]); odd != nil {
			t.odd(odd)
		}
	}
	return n, err
}

// headerWarning is for a body that was taken as it is, but is hardly what its sender means.
const headerWarning = "Urifilter-Warning"

func (c *call) warnOdd(odd *sniff.Odd) {
	hint := odd.Hint
	if odd.As != "" {
		hint = "`urifilter filter --as " + odd.As + " FILE` takes the items out of it"
	}
	c.w.Header().Set(headerWarning, strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, "the body looks like "+odd.What+": each of its lines is taken for an item; "+hint))
}

func notText(first []byte) error {
	switch {
	case bytes.HasPrefix(first, sniff.Gzip):
		return &problem.Error{
			Code:   problem.UnsupportedCoding,
			Detail: "the body is gzip: send it with Content-Encoding: gzip",
			Known:  []string{"gzip", "identity"},
			Header: [2]string{"Accept-Encoding", "gzip"},
		}
	case bytes.HasPrefix(first, sniff.Zstd):
		return notTextFault("zstd", "`zstdcat FILE` makes text of it; `urifilter filter FILE` reads it as it is")
	}
	switch f := sniff.Look(first); {
	case f == nil:
		return nil
	case f.Program != "":
		return notTextFault(f.What, "`"+f.Program+"` makes text of it")
	default:
		return notTextFault(f.What, f.Advice)
	}
}

func notTextFault(what, advice string) error {
	return &problem.Error{Code: problem.UnsupportedMedia, Detail: "the body is " + what + ", want lines of UTF-8 text: " + advice}
}
