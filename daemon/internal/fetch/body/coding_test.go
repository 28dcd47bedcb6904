package body

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// encode writes text in one coding; "raw deflate" is deflate without the zlib frame.
func encode(t testing.TB, coding string, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw deflate":
		w, _ = flate.NewWriter(&b, 6)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	default:
		return text
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decode(r io.Reader, contentEncoding string) ([]byte, error) {
	d, err := Decode(r, contentEncoding)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(d)
	return text, errors.Join(err, d.Close())
}

var codings = []string{"gzip", "x-gzip", "deflate", "raw deflate", "br", "zstd", "identity", ""}

func TestDecode(t *testing.T) {
	text := []byte(strings.Repeat("a text that is long enough. ", 10_000))
	for _, coding := range codings {
		sent, name := encode(t, coding, text), strings.TrimPrefix(coding, "raw ")
		for _, r := range []io.Reader{bytes.NewReader(sent), iotest.OneByteReader(bytes.NewReader(sent)), iotest.DataErrReader(bytes.NewReader(sent))} {
			if got, err := decode(r, " "+strings.ToUpper(name)+" ,"); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s: got %d bytes and %v", coding, len(got), err)
			}
		}
		if got, err := decode(strings.NewReader(""), name); err != nil || len(got) != 0 {
			t.Errorf("%s, empty: got %q and %v", coding, got, err)
		}
	}
	twice := encode(t, "br", encode(t, "gzip", text))
	if got, err := decode(bytes.NewReader(twice), "gzip, br"); err != nil || !bytes.Equal(got, text) {
		t.Errorf("gzip, br: got %d bytes and %v", len(got), err)
	}
}

func TestDecodeBroken(t *testing.T) {
	text := random(100_000)
	var broken *CodingError
	for _, coding := range codings[:6] {
		sent, name := encode(t, coding, text), strings.TrimPrefix(coding, "raw ")
		if _, err := decode(bytes.NewReader(sent[:len(sent)/2]), name); !errors.As(err, &broken) {
			t.Errorf("%s, half of it: %v", coding, err)
		}
		if _, err := decode(strings.NewReader("<html>no coding at all</html>"), name); !errors.As(err, &broken) {
			t.Errorf("%s, plain: %v", coding, err)
		}
		lost := errors.New("lost")
		if _, err := decode(io.MultiReader(bytes.NewReader(sent[:len(sent)/2]), iotest.ErrReader(lost)), name); !errors.Is(err, lost) {
			t.Errorf("%s, then an error: %v", coding, err)
		}
	}
	for _, header := range []string{"compress", "gzip, lzma", "gzip, gzip, gzip", strings.Repeat("br,", 1000)} {
		if _, err := decode(strings.NewReader("x"), header); !errors.As(err, &broken) || len(err.Error()) > 200 {
			t.Errorf("%.40s: %v", header, err)
		}
	}
}

// TestNoCoding: what names no coding is none. Servers send the encoding of the text, or "none".
func TestNoCoding(t *testing.T) {
	zipped := string(encode(t, "gzip", []byte("a text")))
	for header, sent := range map[string]string{
		"UTF-8": "a text", "none": "a text", "utf8": "a text", "ISO-8859-1": "a text", "binary": "a text", "8bit": "a text", "text/html": "a text",
		"chunked": "a text", "aws-chunked": "a text", "windows-1252, none, utf-8, identity": "a text", "gzip, UTF-8": zipped, "aws-chunked,gzip": zipped, `"gzip"`: zipped,
	} {
		if got, err := decode(strings.NewReader(sent), header); err != nil || string(got) != "a text" {
			t.Errorf("%s: got %q and %v", header, got, err)
		}
	}
	var broken *CodingError
	for _, coding := range refused {
		if _, err := decode(strings.NewReader("x"), strings.ToUpper(coding)); !errors.As(err, &broken) {
			t.Errorf("%s: %v", coding, err)
		}
	}
}

func TestMembers(t *testing.T) {
	one, two := encode(t, "gzip", []byte("one ")), encode(t, "gzip", []byte("two"))
	for rest, want := range map[string]string{"": "one two", "\x00\x00\x00": "one two", "garbage": "one two"} {
		got, err := decode(strings.NewReader(string(one)+string(two)+rest), "gzip")
		if err != nil || string(got) != want {
			t.Errorf("with %q behind it: got %q and %v", rest, got, err)
		}
	}
}

// A frame that wants a window of a gigabyte does not get it.
func TestWindow(t *testing.T) {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 20 << 3, 1, 0, 0}
	var broken *CodingError
	if _, err := decode(bytes.NewReader(frame), "zstd"); !errors.As(err, &broken) || !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for i, coding := range codings {
		f.Add(byte(i), encode(f, coding, []byte("a text")))
	}
	s := NewStore("", 1<<20, 1<<30)
	f.Fuzz(func(t *testing.T, n byte, sent []byte) {
		d, err := Decode(bytes.NewReader(sent), strings.TrimPrefix(codings[int(n)%len(codings)], "raw "))
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Keep(d, 1<<20)
		if err == nil {
			err = b.Close()
		}
		var broken *CodingError
		if err != nil && !errors.As(err, &broken) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if s.Held() != 0 {
			t.Errorf("%d bytes of memory are held", s.Held())
		}
	})
}
