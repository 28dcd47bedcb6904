package warc

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

var when = time.Date(2026, 11, 23, 4, 5, 6, 789_000_000, time.UTC)

// page is an exchange with a body of n bytes.
func page(i, n int) Exchange {
	return Exchange{URI: fmt.Sprintf("http://h.example/%d?a=%%20", i), Time: when, Remote: "192.0.2.1:80", Status: 200,
		RequestHeader: http.Header{"User-Agent": {"test"}}, Header: http.Header{"Content-Type": {"text/html"}, "Set-Cookie": {"a=1", "b=2"}},
		Body: bytes.Repeat([]byte{byte('a' + i), '\r', '\n', 0}, n/4)}
}

func encode(t *testing.T, x Exchange) Encoded {
	t.Helper()
	e, err := Encode(x)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func open(t *testing.T, dir string, at Position, o Options) *Writer {
	t.Helper()
	o.Now = func() time.Time { return when }
	w, err := Open(dir, at, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func add(t *testing.T, w *Writer, x Exchange) Position {
	t.Helper()
	if err := w.Append(encode(t, x)); err != nil {
		t.Fatal(err)
	}
	at, err := w.Sync()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// record is a record as it was read back.
type record struct {
	offset int64
	fields textproto.MIMEHeader
	block  []byte
}

// readAll reads a file strictly by the rules of the format, and checks the digests of all blocks.
func readAll(t *testing.T, file string) (all []record) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	from := bytes.NewReader(b)
	for from.Len() > 0 {
		r := record{offset: int64(len(b) - from.Len())}
		z, err := gzip.NewReader(from) // reads no further than its member, as from is a ByteReader
		if err != nil {
			t.Fatalf("%s at %d: %v", file, r.offset, err)
		}
		z.Multistream(false)
		text := textproto.NewReader(bufio.NewReader(z))
		if line, err := text.ReadLine(); err != nil || line != "WARC/1.1" {
			t.Fatalf("%s at %d: got %q, %v", file, r.offset, line, err)
		}
		if r.fields, err = text.ReadMIMEHeader(); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(text.R)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(r.fields.Get("Content-Length"))
		if err != nil || len(rest) != n+4 || string(rest[n:]) != "\r\n\r\n" {
			t.Fatalf("%s at %d: %d bytes of block and end, Content-Length %d, %v", file, r.offset, len(rest), n, err)
		}
		if r.block = rest[:n]; Digest(r.block) != r.fields.Get("WARC-Block-Digest") {
			t.Errorf("%s at %d: the digest of the block is %s", file, r.offset, r.fields.Get("WARC-Block-Digest"))
		}
		all = append(all, r)
	}
	return all
}

// told describes records briefly.
func told(all []record) (s []string) {
	for _, r := range all {
		s = append(s, strings.TrimSpace(r.fields.Get("WARC-Type")+" "+strings.TrimPrefix(r.fields.Get("WARC-Target-URI"), "http://h.example")))
	}
	return s
}

// TestRecords: the contents of the records of a page.
func TestRecords(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "warc")
	w := open(t, dir, Position{}, Options{Info: [][2]string{{"software", "uridownloader/1 test\r\nx: y"}}})
	x := page(1, 400)
	x.Header["Content-Encoding"], x.Header["Content-Length"] = []string{"gzip"}, []string{"77"}
	add(t, w, x)
	x.Remote = "[2001:db8::1]:443"
	add(t, w, x)
	all := readAll(t, filepath.Join(dir, "crawl-00000.warc.gz"))
	if got, want := told(all), []string{"warcinfo", "request /1?a=%20", "response /1?a=%20", "request /1?a=%20", "response /1?a=%20"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if got := string(all[0].block); !strings.HasPrefix(got, "software: uridownloader/1 test  x: y\r\nformat: WARC File Format 1.1\r\n") {
		t.Errorf("warcinfo: got %q", got)
	}
	if got, want := string(all[1].block), "GET /1?a=%20 HTTP/1.1\r\nHost: h.example\r\nUser-Agent: test\r\n\r\n"; got != want {
		t.Errorf("request: got %q, want %q", got, want)
	}
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 400\r\nContent-Type: text/html\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Archive-Orig-Content-Encoding: gzip\r\nX-Archive-Orig-Content-Length: 77\r\n\r\n"
	if got := string(all[2].block); got != head+string(x.Body) {
		t.Errorf("response: got %.300q", got)
	}
	for name, want := range map[string]string{"WARC-Payload-Digest": Digest(x.Body), "WARC-IP-Address": "2001:db8::1", "WARC-Date": "2026-11-23T04:05:06.789Z",
		"WARC-Concurrent-To": all[3].fields.Get("WARC-Record-ID"), "Content-Type": "application/http;msgtype=response"} {
		if got := all[4].fields.Get(name); got != want {
			t.Errorf("response: %s: got %q, want %q", name, got, want)
		}
	}
	ids := map[string]bool{}
	for _, r := range all {
		ids[r.fields.Get("WARC-Record-ID")] = true
	}
	if len(ids) != len(all) {
		t.Errorf("%d ids of %d records", len(ids), len(all))
	}
	if _, err := Encode(Exchange{URI: "http://h/\r\nx"}); err == nil {
		t.Error("an URI with a line end was taken")
	}
}

// TestCut: wherever a crash has torn uncommitted data, the file continues after the committed position.
func TestCut(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	w := open(t, whole, Position{}, Options{})
	committed := add(t, w, page(1, 40))
	end := add(t, w, page(2, 40))
	b, err := os.ReadFile(w.name(0))
	if err != nil || int64(len(b)) != end.Offset {
		t.Fatalf("%d bytes, %v; want %d", len(b), err, end.Offset)
	}
	want := []string{"warcinfo", "request /1?a=%20", "response /1?a=%20", "request /3?a=%20", "response /3?a=%20"}
	for n := int64(0); n <= end.Offset; n++ {
		if far := max(committed.Offset-n, n-committed.Offset); far > 20 && n%17 != 0 && n != end.Offset {
			continue // each costs a sync
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "crawl-00000.warc.gz")
		if err := os.WriteFile(path, b[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := Open(dir, committed, Options{})
		if n < committed.Offset {
			if err == nil || !strings.Contains(err.Error(), "hint:") {
				t.Fatalf("%d bytes of %d: got %v, want an error with a hint", n, committed.Offset, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		add(t, w, page(3, 40))
		if got := told(readAll(t, path)); !slices.Equal(got, want) {
			t.Fatalf("torn at %d: got %q, want %q", n, got, want)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRotation: a full file is followed by the next one; files after the committed position are removed.
func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := open(t, dir, Position{}, Options{Prefix: "x", Size: 1000})
	var at []Position
	for i := range 9 {
		p := add(t, w, page(i, 400))
		at = append(at, p)
	}
	if at[8].File < 2 {
		t.Fatalf("got %+v, want more files", at)
	}
	if err := os.WriteFile(filepath.Join(dir, "x-notes.warc.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range slices.Backward(at) {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		w = open(t, dir, at[i], Options{Prefix: "x", Size: 1000})
		if now, err := w.Sync(); err != nil || now != at[i] {
			t.Fatalf("got %+v, %v; want %+v", now, err, at[i])
		}
		pages := 0
		for n := range at[i].File + 1 {
			all := readAll(t, w.name(n))
			if all[0].fields.Get("WARC-Type") != "warcinfo" || all[0].fields.Get("WARC-Filename") != fmt.Sprintf("x-%05d.warc.gz", n) {
				t.Errorf("file %d begins with %v", n, all[0].fields)
			}
			pages += (len(all) - 1) / 2
		}
		if pages != i+1 {
			t.Errorf("%d pages up to %+v, want %d", pages, at[i], i+1)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "x-0*")); len(files) != at[i].File+1 {
			t.Errorf("got %q, want %d files", files, at[i].File+1)
		}
	}
	w = open(t, dir, Position{}, Options{Prefix: "x"})
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("got %q, want the notes alone", files)
	}
	add(t, w, page(1, 40))
	if got := told(readAll(t, w.name(0))); len(got) != 3 {
		t.Errorf("got %q, want 3 records", got)
	}
}

// TestFaults: a failed operation is never retried, and committed data stays.
func TestFaults(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, label := range []string{"warc-create", "warc-write", "warc-sync", "warc-syncdir"} {
		dir, armed := t.TempDir(), false
		w := open(t, dir, Position{}, Options{Size: 1, FS: disk.FS{Hook: func(l, _ string) disk.Fault {
			if armed && l == label {
				return disk.Fault{Before: broken}
			}
			return disk.Fault{}
		}}})
		committed := add(t, w, page(1, 40))
		armed = true
		err := w.Append(encode(t, page(2, 40)))
		if err == nil {
			_, err = w.Sync()
		}
		if !errors.Is(err, broken) {
			t.Errorf("%s: got %v, want the fault", label, err)
		}
		armed = false
		if err := w.Append(encode(t, page(3, 40))); !errors.Is(err, broken) {
			t.Errorf("%s: append after it: got %v, want the fault", label, err)
		}
		if _, err := w.Sync(); !errors.Is(err, broken) {
			t.Errorf("%s: sync after it: got %v, want the fault", label, err)
		}
		_ = w.Close()
		w = open(t, dir, committed, Options{Size: 1})
		add(t, w, page(4, 40))
		if got := told(slices.Concat(readAll(t, w.name(0)), readAll(t, w.name(1)))); !slices.Equal(got, []string{"warcinfo", "request /1?a=%20", "response /1?a=%20", "warcinfo", "request /4?a=%20", "response /4?a=%20"}) {
			t.Errorf("%s: got %q", label, got)
		}
	}
}

// TestVerify: what was written is sound, and after any damage it is not; what follows the position is not looked at.
func TestVerify(t *testing.T) {
	t.Parallel()
	dir, o := t.TempDir(), Options{Size: 2000}
	w := open(t, dir, Position{}, o)
	var at Position
	for i := range 6 {
		at = add(t, w, page(i, 40_000))
	}
	verify := func() (faults []string, blocks int64) {
		t.Helper()
		if err := Verify(t.Context(), dir, at, o, func(fault string) { faults = append(faults, fault) }, func(int64) { blocks++ }); err != nil {
			t.Fatal(err)
		}
		return faults, blocks
	}
	if faults, blocks := verify(); faults != nil || blocks != int64(12+at.File+1) || at.File < 1 {
		t.Fatalf("%q, %d blocks up to %+v", faults, blocks, at)
	}
	last := w.name(at.File)
	for name, damage := range map[string]func(text []byte) (string, []byte){
		"a record too many":       func(text []byte) (string, []byte) { return "", append(text, text[:100]...) },
		"the last record cut":     func(text []byte) (string, []byte) { return "unexpected EOF", text[:len(text)-1] },
		"nothing left":            func([]byte) (string, []byte) { return "record at byte 0: unexpected EOF", nil },
		"another record, as long": func(text []byte) (string, []byte) { text[len(text)/2] ^= 4; return "record at byte ", text },
	} {
		text, err := os.ReadFile(last)
		if err != nil {
			t.Fatal(err)
		}
		want, damaged := damage(slices.Clone(text))
		if err := os.WriteFile(last, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if faults, _ := verify(); (want == "") != (len(faults) == 0) || want != "" && (len(faults) != 1 || !strings.Contains(faults[0], want)) {
			t.Errorf("%s: got %q, want %q", name, faults, want)
		}
		if err := os.WriteFile(last, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Whole records of an earlier file are missing, then the file.
	records := readAll(t, w.name(0))
	if err := os.Truncate(w.name(0), records[1].offset); err != nil {
		t.Fatal(err)
	}
	if faults, _ := verify(); len(faults) != 1 || !strings.Contains(faults[0], "written up to 2000") {
		t.Errorf("%q", faults)
	}
	if err := os.Remove(w.name(0)); err != nil {
		t.Fatal(err)
	}
	if faults, _ := verify(); len(faults) != 1 || !strings.Contains(faults[0], "no such file") {
		t.Errorf("%q", faults)
	}
}
