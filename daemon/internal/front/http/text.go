package http

import (
	"bytes"
	"io"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/sniff"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// linesOf is a stream of lines whose first bytes are checked: otherwise the lines of a packed or
// binary file would be remembered forever as items.
func linesOf(src io.Reader) io.Reader { return &textReader{src: src} }

type textReader struct {
	src    io.Reader
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
	return n, err
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
