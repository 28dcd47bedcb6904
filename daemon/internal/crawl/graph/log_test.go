package graph

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/durable"
)

func sample() []Edge {
	return []Edge{
		{From: "http://a.example/", To: "http://a.example/b", Text: "b", Rel: ""},
		{From: "http://a.example/", To: "http://b.example/?q=\"1\"&r=<2>", Text: "two\nlines\ttab \x00\x1b <b>", Rel: "nofollow noopener"},
		{From: "http://a.example/b", To: "http://a.example/", Text: "中文 \u2028 ÿ 🎈", Rel: ""},
		{From: "http://a.example/b", To: "http://a.example/b", Text: "", Rel: "canonical"},
	}
}

// readAll reads a file and tells whether its last line was cut.
func readAll(t *testing.T, path string) (edges []Edge, wasCut bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := NewReader(path, f)
	for {
		e, err := r.Next()
		if err == io.EOF {
			return edges, r.Cut()
		}
		if err != nil {
			t.Fatal(err)
		}
		edges = append(edges, e)
	}
}

func write(t *testing.T, path string, keep int64, edges ...Edge) int64 {
	t.Helper()
	l, err := OpenLog(durable.FS{}, path, keep)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(edges...); err != nil {
		t.Fatal(err)
	}
	size, err := l.Sync()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return size
}

func TestLogIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), File)
	write(t, path, -1, sample()[:2]...)
	write(t, path, -1, sample()[2:]...)
	if got, wasCut := readAll(t, path); !reflect.DeepEqual(got, sample()) || wasCut {
		t.Errorf("got %q, cut %v; want %q", got, wasCut, sample())
	}
	invalid := write(t, path, 0, Edge{From: "http://a/\xff", To: "b", Text: strings.Repeat("é", MaxText)})
	got, _ := readAll(t, path)
	if want := (Edge{From: "http://a/\ufffd", To: "b", Text: strings.Repeat("é", MaxText/2)}); len(got) != 1 || got[0] != want || invalid == 0 {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Wherever a crash cuts the file, what is read and what is kept are its whole lines.
func TestLogIsCutAtEveryByte(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, File)
	write(t, path, -1, sample()...)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	more := Edge{From: "http://after/", To: "http://crash/"}
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(whole[:n], []byte("\n"))
		if got, wasCut := readAll(t, path); len(got) != lines || wasCut != (n > 0 && whole[n-1] != '\n') {
			t.Fatalf("%d bytes: %d edges, cut %v; want %d", n, len(got), wasCut, lines)
		}
		write(t, path, -1, more)
		if got, wasCut := readAll(t, path); wasCut || !reflect.DeepEqual(got, append(sample()[:lines:lines], more)) {
			t.Fatalf("%d bytes: after the crash %q", n, got)
		}
	}
}

func TestLogKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), File)
	committed := write(t, path, 0, sample()[:2]...)
	write(t, path, committed, sample()[2:]...)
	write(t, path, committed)
	if got, _ := readAll(t, path); !reflect.DeepEqual(got, sample()[:2]) {
		t.Errorf("got %q", got)
	}
	for keep, want := range map[int64]string{committed + 1: "links that were kept are missing", committed - 1: "no line ends at byte"} {
		if _, err := OpenLog(durable.FS{}, path, keep); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("keep %d: %v, want %q", keep, err, want)
		}
	}
}

func TestLogFailsForGood(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken disk")
	fail := false
	fs := durable.FS{Hook: func(label, _ string) durable.Fault {
		if fail && label == "graph" {
			fail = false
			return durable.Fault{Before: broken}
		}
		return durable.Fault{}
	}}
	l, err := OpenLog(fs, filepath.Join(t.TempDir(), File), -1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fail = true
	if err := l.Append(sample()...); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Sync(); !errors.Is(err, broken) {
			t.Errorf("Sync: %v", err)
		}
		if err := l.Append(sample()...); !errors.Is(err, broken) {
			t.Errorf("Append: %v", err)
		}
	}
}

func TestEdgeWithoutEndIsRefused(t *testing.T) {
	t.Parallel()
	for _, e := range []Edge{{From: "a"}, {To: "b"}, {From: "a", To: strings.Repeat("b", MaxLine)}} {
		before := []byte("before")
		if got, err := AppendLine(before, e); err == nil || string(got) != "before" {
			t.Errorf("%.20q: %v, %.20q", e, err, got)
		}
	}
}

func TestReaderNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	good := `{"from":"a","to":"b","text":"","rel":""}` + "\n"
	for text, want := range map[string]string{
		good + "{\n":                        "dir/graph.ndjson:2: no link: unexpected end",
		"\n":                                "dir/graph.ndjson:1: no link: unexpected end",
		good + good + `{"from":"a"}` + "\n": "dir/graph.ndjson:3: no link: want {",
		`{"from":1,"to":"b"}` + "\n":        "dir/graph.ndjson:1: no link: json: cannot unmarshal number",
		good + strings.Repeat("x", MaxLine) + "\n": "dir/graph.ndjson:2: longer than",
		good + strings.Repeat("x", 2*MaxLine):      "dir/graph.ndjson:2: longer than",
	} {
		r := NewReader("dir/graph.ndjson", strings.NewReader(text))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.50q: %v, want %s", text, err, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"from":"a","to":"b","text":"","rel":""}` + "\n{"))
	f.Add([]byte("\n\n\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := NewReader("g", bytes.NewReader(text))
		for {
			e, err := r.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				if !strings.HasPrefix(err.Error(), fmt.Sprintf("g:%d: ", r.line)) {
					t.Fatalf("%q does not name file and line", err)
				}
				return
			}
			line, err := AppendLine(nil, e)
			if err != nil {
				t.Fatal(err)
			}
			again, err := NewReader("g", bytes.NewReader(line)).Next()
			if e.Text, e.Rel = cut(e.Text, MaxText), cut(e.Rel, MaxRel); err != nil || again != e {
				t.Fatalf("%q, %v; want %q", again, err, e)
			}
		}
	})
}
