package http

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

func TestMediaOf(t *testing.T) {
	const none media = -1
	for value, want := range map[string]media{
		"": mediaJSON, "application/json": mediaJSON, "Application/JSON; charset=UTF-8": mediaJSON, "application/vnd.x+json": mediaJSON,
		"application/x-www-form-urlencoded": mediaForm, "application/x-www-form-urlencoded; charset=utf-8": mediaForm,
		"text/plain": mediaText, "text/plain; charset=us-ascii": mediaText, "application/x-ndjson": mediaNDJSON, "application/ndjson": mediaNDJSON,
		"text/plain; charset=latin1": none, "text/html": none, "image/svg+json": none, "text/": none, ";": none,
	} {
		r := &http.Request{Header: http.Header{"Content-Type": {value}}}
		got, err := mediaOf(r)
		if want == none {
			if problem.Of(err).Code != problem.UnsupportedMedia {
				t.Errorf("%q: got %v, %v; want %s", value, got, err, problem.UnsupportedMedia)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", value, got, err, want)
		}
		if err := wantJSON(r); (err == nil) != (want == mediaJSON || want == mediaForm) {
			t.Errorf("%q: where JSON alone is taken: %v", value, err)
		}
	}
}

// Data that is not text is noticed however few bytes come at a time, and text passes unchanged.
func TestLinesAreText(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\n": "", "": "", "\xc3\xbc\n": "", strings.Repeat("long line ", 10_000): "",
		"\x1f\x8b\x08\x00": problem.UnsupportedCoding, "\x28\xb5\x2f\xfd\x00": problem.UnsupportedMedia,
		"PK\x03\x04\x00": problem.UnsupportedMedia, "\xff\xfea\x00": problem.UnsupportedMedia,
	} {
		for way, source := range map[string]io.Reader{
			"at once": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			got, err := io.ReadAll(linesOf(source, nil))
			var bad *problem.Error
			switch {
			case want == "" && (err != nil || string(got) != text):
				t.Errorf("%.20q %s: got %.20q, %v", text, way, got, err)
			case want != "" && (!errors.As(err, &bad) || bad.Code != want || len(got) > 0):
				t.Errorf("%.20q %s: got %.20q, %v; want %s", text, way, got, err, want)
			}
		}
	}
}
