package streams_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// An error in the middle of a stream is reported in a trailer, with the line, to clients that
// read trailers, and the answer before it is complete.
func TestStreamErrorInTheMiddleIsTold(t *testing.T) {
	r := apitest.New(t)
	c, err := client.New(r.HTTP.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := func() io.Reader {
		pr, pw := io.Pipe()
		go func() {
			err := apitest.Numbered(pw, 0, 40_000)
			if err == nil {
				_, err = io.WriteString(pw, "ü"+strings.Repeat("x", 70_000)+"\nlast\n")
			}
			pw.CloseWithError(err)
		}()
		return pr
	}
	for name, call := range map[string]func(w io.Writer) error{
		"filter": func(w io.Writer) error { _, _, err := c.FilterLines(t.Context(), "uri", body(), w); return err },
		"check":  func(w io.Writer) error { _, err := c.CheckLines(t.Context(), "uri", body(), w); return err },
	} {
		var out bytes.Buffer
		err := call(&out)
		var e *client.Error
		if !errors.As(err, &e) || e.ErrorCode != "item_too_large" || e.Status != 413 || e.Index == nil || *e.Index != 40_000 {
			t.Errorf("%s: %v, want item_too_large at line 40000", name, err)
			continue
		}
		if client.InDoubt(err) != (name == "filter") {
			t.Errorf("%s: in doubt: %v", name, client.InDoubt(err))
		}
		if n := strings.Count(out.String(), "\n"); n < 10_000 || n >= 40_000 || !strings.HasSuffix(out.String(), "\n") {
			t.Errorf("%s: %d lines were answered, ending in %q", name, n, out.String()[max(0, out.Len()-20):])
		}
	}
	r.Eventually("logged", func() bool { return strings.Contains(r.Log.String(), "answer to a stream cut off") })
}

// A body that is not text is refused before anything of it is remembered, with a remedy.
func TestStreamsOfNoText(t *testing.T) {
	r := apitest.New(t)
	for body, want := range map[string]string{
		"\x1f\x8b\x08\x00abc\ndef\n":               "unsupported_encoding: the body is gzip: send it with Content-Encoding: gzip",
		"\x28\xb5\x2f\xfdabc\n":                    "unsupported_media_type: the body is zstd",
		"\xff\xfea\x00\n\x00":                      "unsupported_media_type: the body is UTF-16, want lines of UTF-8 text: `iconv -f UTF-16",
		"h\x00t\x00t\x00p\x00s\x00\n\x00":          "`iconv -f UTF-16LE",
		"PK\x03\x04....\n":                         "`unzip -p FILE`",
		"\x7fELF\x02\x01\x01\x00\x00\x00\n":        "a binary file (byte 7 is zero)",
		"\xfd7zXZ\x00" + strings.Repeat("a\n", 10): "xz",
	} {
		for _, path := range []string{"/api/v1/filter", "/api/v1/check"} {
			for _, media := range []string{apitest.TextType, "application/x-ndjson"} {
				a := r.Post(path+"?filter_typeid=uri", body, "Content-Type", media)
				p := a.Problem(t)
				if a.Status != http.StatusUnsupportedMediaType || !strings.Contains(p.ErrorCode+": "+p.Detail, want) {
					t.Errorf("%s %q as %s: %d %+v, want %s", path, body, media, a.Status, p, want)
				}
			}
		}
	}
	f, _ := r.Engine.Lookup("uri")
	if n := f.Stats().Items; n != 0 {
		t.Errorf("%d items are remembered", n)
	}
	for _, body := range []string{"a\n", "\x1f\n", "\xfeb\n", "\ufeffc\n", "P\n", strings.Repeat("z", 5000) + "\x00\n"} {
		if a := r.Post("/api/v1/filter?filter_typeid=uri", body, "Content-Type", apitest.TextType); a.Status != 200 || a.Body == "" {
			t.Errorf("%.10q: %d %s", body, a.Status, a.Body)
		}
	}
}
