package items

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// batches reads a whole stream and returns the canonical bytes of every item.
func batches(r *Reader) (all [][]string, err error) {
	var l List
	for {
		more, err := r.Next(&l)
		if err != nil || !more {
			if l.Len() != 0 {
				return all, fmt.Errorf("%d items with the end or %w", l.Len(), err)
			}
			return all, err
		}
		var batch []string
		for i := range l.Len() {
			batch = append(batch, string(l.Bytes(i)))
		}
		all = append(all, batch)
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name, text string
		format     Format
		want       []string
	}{
		{"empty", "", Lines, nil},
		{"lf", "a\nb\n", Lines, []string{"a", "b"}},
		{"crlf", "a\r\nb\r\n", Lines, []string{"a", "b"}},
		{"no last lf", "a\nb", Lines, []string{"a", "b"}},
		{"last cr", "a\r\nb\r", Lines, []string{"a", "b\r"}},
		{"cr within", "a\rb\n\r\rc\r\r\n", Lines, []string{"a\rb", "\r\rc\r"}},
		{"blank", "\n\r\n\na\n\n\r\n\nb\n\n", Lines, []string{"a", "b"}},
		{"only blank", strings.Repeat("\n", 500) + strings.Repeat("\r\n", 500), Lines, nil},
		{"far after blank", strings.Repeat("\n", 500) + "a", Lines, []string{"a"}},
		{"mark", "\ufeffa\n\ufeffb\n", Lines, []string{"a", "\ufeffb"}},
		{"mark only", "\ufeff", Lines, nil},
		{"half a mark", "\xef\xbb", Lines, []string{"\xef\xbb"}},
		{"any bytes", "\xff\x00\"\\u0041\"\n 天 \n", Lines, []string{"\xff\x00\"\\u0041\"", " 天 "}},
		{"long", "a\n" + long + "\nb\n" + long + long, Lines, []string{"a", long, "b", long + long}},
		{"long crlf", long + "\r\n" + long + "\r\n", Lines, []string{long, long}},
		{"ndjson", "\"a\"\n 1.0 \r\n\n \t\r\n{\"b\":1,\"a\":\"\\u0041\"}\n[\"天\"]", NDJSON, []string{"a", "1", `{"a":"A","b":1}`, `["天"]`}},
		{"ndjson mark", "\ufeff\"a\"\n", NDJSON, []string{"a"}},
		{"ndjson long", strings.Repeat(" ", 900) + "\"" + long + "\"\n[" + strings.Repeat(`"\u0061",`, 200) + "1]", NDJSON,
			[]string{long, "[" + strings.Repeat(`"a",`, 200) + "1]"}},
	} {
		for _, source := range []struct {
			name string
			wrap func(io.Reader) io.Reader
		}{
			{"whole", func(r io.Reader) io.Reader { return r }},
			{"bytes", iotest.OneByteReader},
			{"data with eof", iotest.DataErrReader},
			{"halves", iotest.HalfReader},
		} {
			for _, block := range []int{0, 65, 66, 67, 100, 1 << 20} {
				for _, count := range []int{0, 1, 2, 3} {
					name := fmt.Sprintf("%s, %s, block %d, batches of %d", c.name, source.name, block, count)
					all, err := batches(NewReader(source.wrap(strings.NewReader(c.text)), c.format, Limits{Items: count, ItemBytes: 2000}, block))
					if err != nil {
						t.Errorf("%s: %v", name, err)
					}
					var got []string
					for i, b := range all {
						if count > 0 && (len(b) > count || len(b) < count && i+1 < len(all) && block == 1<<20) {
							t.Errorf("%s: batch of %d", name, len(b))
						}
						got = append(got, b...)
					}
					if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
						t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
					}
				}
			}
		}
	}
}

// TestReaderLongest reads lines of exactly the greatest length, over many blocks.
func TestReaderLongest(t *testing.T) {
	line := strings.Repeat("x", 500)
	for _, text := range []string{line, line + "\n", line + "\r\n", line + "\n" + line + "\r\n" + line} {
		for _, block := range []int{0, 499, 500, 501, 502, 503} {
			all, err := batches(NewReader(strings.NewReader(text), Lines, Limits{ItemBytes: 500}, block))
			if want := strings.Count(text, "x") / 500; err != nil || len(all) != want || all[0][0] != line {
				t.Errorf("block %d: %d lines, error %v, want %d", block, len(all), err, want)
			}
		}
	}
}

func TestReaderRaw(t *testing.T) {
	text := "\n\"a\" \n \"b\\u0041\"\r\n 1.0\n[ 1 ]\n\"c\"\n\"d\"\n"
	var l List
	more, err := NewReader(strings.NewReader(text), NDJSON, Limits{}, 1<<10).Next(&l)
	if !more || err != nil {
		t.Fatal(more, err)
	}
	all := []bool{true, true, true, true, true, true}
	if got, want := string(l.AppendMarkedLines(nil, all)), "\"a\"\n\"b\\u0041\"\n1.0\n[ 1 ]\n\"c\"\n\"d\"\n"; got != want {
		t.Errorf("lines %q, want %q", got, want)
	}
	if got, want := string(l.AppendMarked(nil, all)), `["a","b\u0041",1.0,[ 1 ],"c","d"]`; got != want {
		t.Errorf("array %q, want %q", got, want)
	}
	if l.IsString(2) || !l.IsString(1) || string(l.Raw(3)) != "[ 1 ]" {
		t.Errorf("IsString %v %v, raw %s", l.IsString(2), l.IsString(1), l.Raw(3))
	}

	more, err = NewReader(strings.NewReader("a\r\n1\n\"q\"\nlast"), Lines, Limits{}, 1<<10).Next(&l)
	if !more || err != nil {
		t.Fatal(more, err)
	}
	all = all[:4]
	if got, want := string(l.AppendMarkedLines(nil, all)), "a\n1\n\"q\"\nlast\n"; got != want {
		t.Errorf("lines %q, want %q", got, want)
	}
	for i := range all {
		if !l.IsString(i) || !bytes.Equal(l.Raw(i), l.Bytes(i)) {
			t.Errorf("line %d: %q as %q", i, l.Raw(i), l.Bytes(i))
		}
	}
}

func TestReaderBadData(t *testing.T) {
	for _, c := range []struct {
		name, text string
		format     Format
		code       string
		index      int
		offset     int64
		block      int
	}{
		{"null", "1\n\n2\nnull\n3\n", NDJSON, NullItem, 3, 5, 100},
		{"empty", "1\r\n  \"\"\n", NDJSON, EmptyItem, 1, 5, 100},
		{"malformed", "1\n[1,\n", NDJSON, MalformedJSON, 1, 5, 100},
		{"two values", "1 2\n", NDJSON, MalformedJSON, 0, 2, 100},
		{"comma", "1,\n2\n", NDJSON, MalformedJSON, 0, 1, 100},
		{"mark", "\ufeffx\n", NDJSON, MalformedJSON, 0, 3, 100},
		{"in a later block", strings.Repeat("\"0123456789\"\n", 1000) + "\"a", NDJSON, MalformedJSON, 1000, 13002, 100},
		{"after blank lines", strings.Repeat("\n", 1000) + "x", NDJSON, MalformedJSON, 1000, 1000, 100},
		{"large value", "1\n\"" + strings.Repeat("x", 51) + "\"\n", NDJSON, ItemTooLarge, 1, 2, 1000},
		{"large line", "1\n\n" + strings.Repeat("x", 51) + "\r\n", Lines, ItemTooLarge, 2, 3, 1000},
		{"large line over blocks", "1\n\n" + strings.Repeat("x", 1000) + "\n", Lines, ItemTooLarge, 2, 3, 64},
		{"large line with no end", "1\n\n" + strings.Repeat("x", 1000), Lines, ItemTooLarge, 2, 3, 64},
		{"large value over blocks", "1\n\"" + strings.Repeat("x", 5000) + "\"\n", NDJSON, ItemTooLarge, 1, 2, 64},
		{"utf-8", "\"a\"\n\"b\xff\"\n", NDJSON, InvalidUTF8, 1, 6, 100},
	} {
		for _, wrap := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.DataErrReader} {
			r := NewReader(wrap(strings.NewReader(c.text)), c.format, Limits{ItemBytes: 50}, c.block)
			_, err := batches(r)
			var e *Error
			if !errors.As(err, &e) || e.Code != c.code || e.Index != c.index || e.Offset != c.offset {
				t.Errorf("%s: error %v, want %s, line %d, byte %d", c.name, err, c.code, c.index, c.offset)
			}
			if more, again := r.Next(new(List)); more || again != err {
				t.Errorf("%s: after the error %v, %v", c.name, more, again)
			}
		}
	}
}

func TestReaderSourceFails(t *testing.T) {
	broken := errors.New("broken")
	var l List
	for _, source := range []io.Reader{
		io.MultiReader(strings.NewReader("a\nb\nc"), iotest.ErrReader(broken)),
		io.MultiReader(strings.NewReader(strings.Repeat("a\n", 1000)), iotest.ErrReader(broken)),
		iotest.ErrReader(broken),
	} {
		if _, err := batches(NewReader(source, Lines, Limits{}, 100)); !errors.Is(err, broken) {
			t.Errorf("error %v, want %v", err, broken)
		}
	}
	more, err := NewReader(idle{}, Lines, Limits{}, 100).Next(&l)
	if more || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("idle source: %v, %v, want %v", more, err, io.ErrNoProgress)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// TestReaderFillsBlocks reads a byte at a time.
func TestReaderFillsBlocks(t *testing.T) {
	text := strings.Repeat("0123456\n", 1000)
	all, err := batches(NewReader(iotest.OneByteReader(strings.NewReader(text)), Lines, Limits{}, 1000))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all[:len(all)-1] {
		if len(b) != 125 {
			t.Fatalf("batches of %d items, want 125: block / line", len(b))
		}
	}
	// Batches limited by items leave part of a block, and the next batch continues in it.
	all, err = batches(NewReader(strings.NewReader(text), Lines, Limits{Items: 90}, 1000))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all[:len(all)-1] {
		if len(b) != 90 {
			t.Fatalf("batches of %d items, want 90", len(b))
		}
	}
}

// TestNoRaceReaderMemory sends 256 MiB and an endless line.
func TestNoRaceReaderMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var l List
	total := 0
	r := NewReader(io.LimitReader(&endless{text: "http://www.example.com/0123456789\n"}, 256<<20), Lines, Limits{Items: 100000, ItemBytes: 64 << 10}, 1<<20)
	for {
		more, err := r.Next(&l)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		total += l.Len()
	}
	if want := (256<<20 + 33) / 34; total != want {
		t.Errorf("%d items, want %d", total, want)
	}
	for _, f := range []Format{Lines, NDJSON} {
		_, err := NewReader(&endless{text: "[1,"}, f, Limits{Items: 100000, ItemBytes: 64 << 10}, 1<<20).Next(&l)
		wantError(t, err, ItemTooLarge, 0)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
		t.Errorf("%d MiB allocated, want 16 at most", n>>20)
	}
}

// endless is a stream that repeats one text forever.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		m := copy(p[n:], e.text[e.at:])
		n, e.at = n+m, (e.at+m)%len(e.text)
	}
	return n, nil
}
