package filter

import (
	"bytes"
	endian "encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/sniff"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zstandard(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

func utf16Text(order endian.AppendByteOrder, text string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// A compressed file is the lines in it, for filter and for check, from a file and a pipe.
func TestCompressedInputIsItsText(t *testing.T) {
	s := clienttest.NewServer(t)
	var lines strings.Builder
	for i := range 25_000 {
		fmt.Fprintf(&lines, "https://example.com/%d\n", i)
	}
	half := lines.Len() / 2
	for name, packed := range map[string]string{
		"gzip": gzipped(t, lines.String()), "gzip in two members": gzipped(t, lines.String()[:half]) + gzipped(t, lines.String()[half:]),
		"zstd": zstandard(t, lines.String()), "zstd in two frames": zstandard(t, lines.String()[:half]) + zstandard(t, lines.String()[half:]),
		"gzip with a byte order mark": gzipped(t, "\ufeff"+lines.String()),
	} {
		file := filepath.Join(t.TempDir(), "in")
		write(t, file, packed)
		if code, out, errOut := cli(t, s, "", "check", "--type", "ip", file); code != 0 || out != lines.String() {
			t.Errorf("%s: check: got %d and %d bytes, %.300q", name, code, len(out), errOut)
		}
		if code, out, errOut := cli(t, s, packed, "filter"); code != 0 || !strings.HasPrefix(errOut, "25,000 read, ") || out != "" && out != lines.String() {
			t.Errorf("%s: filter: got %d and %d bytes, %.300q", name, code, len(out), errOut)
		}
	}
	if n, _ := s.Items("uri", "x"); n != 25_000 {
		t.Errorf("%d items are remembered, want those of the text alone", n)
	}
}

// The advice on how to go on names the unpacking program.
func TestCompressedInputThatBreaksOff(t *testing.T) {
	s := clienttest.NewServer(t)
	var lines strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&lines, "https://example.com/%x\n", i*7919)
	}
	packed := gzipped(t, lines.String())
	code, _, errOut := cli(t, s, packed[:len(packed)/2], "filter")
	if code != 1 || !strings.HasPrefix(errOut, "urifilter: input: gzip: unexpected EOF\nlines before ") || !strings.Contains(errOut, "(zcat FILE | tail -n +") {
		t.Errorf("got %d, %q", code, errOut)
	}
}

// A file without lines of text is refused with the next step, and nothing of it is sent.
func TestInputThatIsNoText(t *testing.T) {
	s := clienttest.NewServer(t)
	text := "https://example.com/1\nhttps://example.com/2\n"
	for name, test := range map[string]struct{ in, want, hint string }{
		"UTF-16LE":             {"\xff\xfe" + utf16Text(endian.LittleEndian, text), "UTF-16, want lines of UTF-8 text", "`iconv -f UTF-16 -t UTF-8 FILE | urifilter ...` reads it"},
		"UTF-16BE":             {"\xfe\xff" + utf16Text(endian.BigEndian, text), "UTF-16, want", "`iconv -f UTF-16 -t"},
		"UTF-16LE, no mark":    {utf16Text(endian.LittleEndian, text), "UTF-16 without a byte order mark", "`iconv -f UTF-16LE -t"},
		"UTF-16BE, no mark":    {utf16Text(endian.BigEndian, text), "UTF-16 without a byte order mark", "`iconv -f UTF-16BE -t"},
		"UTF-32":               {"\xff\xfe\x00\x00h\x00\x00\x00", "UTF-32, want", "`iconv -f UTF-32 -t"},
		"bzip2":                {"BZh91AY&SY\x01\x02", "bzip2, want", "`bzcat FILE | urifilter"},
		"xz":                   {"\xfd7zXZ\x00\x00\x04", "xz, want", "`xzcat FILE | urifilter"},
		"zip":                  {"PK\x03\x04\x14", "zip (or an office document), want", "`unzip -p FILE"},
		"binary":               {"\x7fELF\x02\x01\x01\x00\x00", "a binary file (byte 7 is zero), want", "`file FILE`"},
		"binary in gzip":       {gzipped(t, "\x7fELF\x02\x01\x01\x00"), "a binary file (byte 7 is zero), want", "`file FILE`"},
		"gzip in gzip":         {gzipped(t, gzipped(t, text)), "a binary file", "`file FILE`"},
		"UTF-16 in zstd":       {zstandard(t, "\xff\xfe"+utf16Text(endian.LittleEndian, text)), "UTF-16, want", "`iconv"},
		"zeroes between items": {"ab\x00cd\x00", "a binary file (byte 2 is zero), want", "`tr '\\0' '\\n'` makes lines"},
		"a mark cut short":     {"\xfd7zX", "", ""},
	} {
		for _, command := range []string{"filter", "check"} {
			before := len(s.Requests())
			code, out, errOut := cli(t, s, test.in, command)
			switch {
			case test.want == "":
				if code != 0 {
					t.Errorf("%s, %s: got %d, %q", command, name, code, errOut)
				}
			case code != 1 || out != "" || !strings.HasPrefix(errOut, "urifilter: input: "+test.want) || !strings.Contains(errOut, "hint: ") || !strings.Contains(errOut, test.hint):
				t.Errorf("%s, %s: got %d, %q; want %q and the hint %q", command, name, code, errOut, test.want, test.hint)
			case len(s.Requests()) != before:
				t.Errorf("%s, %s: something of it was sent", command, name)
			}
		}
	}
}

// Text stays the same, byte for byte, however it comes, and is passed on without waiting.
func TestPlainInputIsUntouched(t *testing.T) {
	for _, text := range []string{"", "a", "\n", "a\nb\n", "BZhou.example\n", "PAR1S\n", "PK\n", "\ufeffa\n", "\x1f", "(\xb5", strings.Repeat("x\n", sniff.Bytes)} {
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
		} {
			got, err := io.ReadAll(&unpacked{source: r})
			if err != nil || string(got) != text {
				t.Errorf("%.20q, %s: got %.20q, %v", text, name, got, err)
			}
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := io.WriteString(w, "a\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := (&unpacked{source: r}).Read(buf); err != nil || string(buf[:n]) != "a\n" {
		t.Errorf("a line that is typed: got %q, %v", buf[:n], err)
	}
}
