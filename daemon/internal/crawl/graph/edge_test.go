package graph

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

func sample() []Edge {
	return []Edge{
		{From: "http://a.example/", To: "http://a.example/b", Text: "b", Rel: ""},
		{From: "http://a.example/", To: "http://b.example/?q=\"1\"&r=<2>", Text: "two\nlines\ttab \x00\x1b <b>", Rel: "nofollow noopener"},
		{From: "http://a.example/b", To: "http://a.example/", Text: "中文 \u2028 ÿ 🎈", Rel: ""},
		{From: "http://a.example/b", To: "http://a.example/b", Text: "", Rel: "canonical"},
	}
}

// readAll reads a text and reports whether its last line was cut.
func readAll(t *testing.T, text []byte) (edges []Edge, wasCut bool) {
	t.Helper()
	r := NewReader(File, bytes.NewReader(text))
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

func lines(t testing.TB, edges ...Edge) (text []byte) {
	t.Helper()
	for _, e := range edges {
		var err error
		if text, err = AppendLine(text, e); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

func TestLinesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	if got, wasCut := readAll(t, lines(t, sample()...)); !reflect.DeepEqual(got, sample()) || wasCut {
		t.Errorf("got %q, cut %v; want %q", got, wasCut, sample())
	}
	got, _ := readAll(t, lines(t, Edge{From: "http://a/\xff", To: "b", Text: strings.Repeat("é", MaxText)}))
	if want := (Edge{From: "http://a/\ufffd", To: "b", Text: strings.Repeat("é", MaxText/2)}); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Wherever a crash cuts the file, its complete lines can be read.
func TestLinesAreCutAtEveryByte(t *testing.T) {
	t.Parallel()
	whole := lines(t, sample()...)
	for n := range len(whole) + 1 {
		want := bytes.Count(whole[:n], []byte("\n"))
		if got, wasCut := readAll(t, whole[:n]); len(got) != want || want > 0 && !reflect.DeepEqual(got, sample()[:want]) || wasCut != (n > 0 && whole[n-1] != '\n') {
			t.Fatalf("%d bytes: %q, cut %v; want %d of them", n, got, wasCut, want)
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
