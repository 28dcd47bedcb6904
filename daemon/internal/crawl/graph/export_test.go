package graph

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// hostile are links whose parts have a special meaning in each of the formats.
func hostile() []Edge {
	return append(sample(),
		Edge{From: "http://a.example/", To: `http://a.example/\`, Text: `ends with \`, Rel: ""},
		Edge{From: "http://a.example/", To: "http://a.example/?a=1&copy;=2&amp;b", Text: `"]; evil [label="x`, Rel: "]]>"},
		Edge{From: "=cmd", To: "@SUM(1)", Text: "=HYPERLINK(\"http://x\")", Rel: "+1"},
		Edge{From: "'=1", To: "http://a.example/x,y", Text: " -1+1", Rel: "\r"},
		Edge{From: "http://a.example/", To: "http://a.example/\\N", Text: "\\N \\G <b>&lt;</b> \x01\x7f\uffff", Rel: "＝1"})
}

// crawled makes the folder of a crawl with these links and pages.
func crawled(t testing.TB, edges []Edge, index string) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, File), lines(t, edges...), 0o600), os.WriteFile(filepath.Join(dir, indexFile), []byte(index), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t testing.TB, dir string) *Graph {
	t.Helper()
	g, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func export(t *testing.T, g *Graph, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := g.Export(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCSVIsReadBack(t *testing.T) {
	t.Parallel()
	read, err := csv.NewReader(strings.NewReader(export(t, load(t, crawled(t, hostile(), "")), "csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"from", "to", "text", "rel"}}
	for _, e := range hostile() {
		want = append(want, []string{e.From, e.To, e.Text, e.Rel})
	}
	for _, line := range read {
		for i, text := range line {
			if strings.ContainsAny(strings.TrimSpace(text)[:min(1, len(strings.TrimSpace(text)))], "=+-@") {
				t.Errorf("%q is a formula", text)
			}
			line[i] = strings.TrimPrefix(text, "'")
		}
	}
	if !reflect.DeepEqual(read, want) {
		t.Errorf("got %q\nwant %q", read, want)
	}
}

func TestGraphMLIsReadBack(t *testing.T) {
	t.Parallel()
	g := load(t, crawled(t, hostile(), `{"uri":"http://a.example/b","status":404,"depth":1}`+"\n"))
	type datum struct {
		Key  string `xml:"key,attr"`
		Text string `xml:",chardata"`
	}
	var doc struct {
		XMLName xml.Name `xml:"http://graphml.graphdrawing.org/xmlns graphml"`
		Graph   struct {
			Nodes []struct {
				ID   string  `xml:"id,attr"`
				Data []datum `xml:"data"`
			} `xml:"node"`
			Edges []struct {
				Source string  `xml:"source,attr"`
				Target string  `xml:"target,attr"`
				Data   []datum `xml:"data"`
			} `xml:"edge"`
		} `xml:"graph"`
	}
	if err := xml.Unmarshal([]byte(export(t, g, "graphml")), &doc); err != nil {
		t.Fatal(err)
	}
	value := func(all []datum, key string) string {
		for _, d := range all {
			if d.Key == key {
				return d.Text
			}
		}
		return ""
	}
	uris := map[string]string{}
	for _, n := range doc.Graph.Nodes {
		uris[n.ID] = value(n.Data, "uri")
		if uris[n.ID] == "http://a.example/b" && (value(n.Data, "status") != "404" || value(n.Data, "depth") != "1") {
			t.Errorf("data of %s: %q", uris[n.ID], n.Data)
		}
	}
	legal := strings.NewReplacer("\x00", "\ufffd", "\x01", "\ufffd", "\x1b", "\ufffd", "\uffff", "\ufffd")
	for i, e := range doc.Graph.Edges {
		got := Edge{uris[e.Source], uris[e.Target], value(e.Data, "text"), value(e.Data, "rel")}
		want := hostile()[i]
		if want.Text = legal.Replace(want.Text); got != want {
			t.Errorf("link %d: %q, want %q", i, got, want)
		}
	}
	if len(doc.Graph.Edges) != len(hostile()) {
		t.Errorf("%d links, want %d", len(doc.Graph.Edges), len(hostile()))
	}
}

// Graphviz draws each URI unchanged, and every link.
func TestGraphvizReadsDOT(t *testing.T) {
	t.Parallel()
	dot, err := exec.LookPath("dot")
	if err != nil {
		t.Skip("Graphviz is not installed: apt-get install graphviz")
	}
	g := load(t, crawled(t, hostile(), `{"uri":"http://a.example/b","status":404,"depth":1}`+"\n"))
	cmd := exec.Command(dot, "-Tsvg")
	cmd.Stdin = strings.NewReader(export(t, g, "dot"))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	svg, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("dot: %v: %s", err, errs.String())
	}
	var drawn struct {
		Groups []struct {
			Class string   `xml:"class,attr"`
			Text  []string `xml:"text"`
		} `xml:"g>g"`
	}
	if err := xml.Unmarshal(svg, &drawn); err != nil {
		t.Fatal(err)
	}
	shown, edges := map[string]bool{}, 0
	for _, group := range drawn.Groups {
		switch group.Class {
		case "node":
			shown[strings.ReplaceAll(strings.Join(group.Text, "\n"), "\u00a0", " ")] = true
		case "edge":
			edges++
		}
	}
	for _, uri := range g.uris {
		if !shown[uri] {
			t.Errorf("%q is not drawn; drawn are %v", uri, shown)
		}
	}
	if edges != len(hostile()) {
		t.Errorf("%d links are drawn, want %d", edges, len(hostile()))
	}
}

func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	err := load(t, crawled(t, sample(), "")).Export(&bytes.Buffer{}, "pdf")
	if want := `format "pdf": want csv, dot, graphml`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

type fullDisk struct{ left int }

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestExportTellsOfWriteErrors(t *testing.T) {
	t.Parallel()
	var edges []Edge
	for range 400 {
		edges = append(edges, hostile()...)
	}
	g := load(t, crawled(t, edges, ""))
	for _, format := range Formats() {
		for _, left := range []int{0, 100 << 10} {
			if err := g.Export(&fullDisk{left}, format); err == nil {
				t.Errorf("%s: no error of a full disk after %d bytes", format, left)
			}
		}
	}
}

func FuzzExport(f *testing.F) {
	f.Add("=1", "\\", "\x00\"&")
	f.Fuzz(func(t *testing.T, from, to, text string) {
		line, err := AppendLine(nil, Edge{From: from, To: to, Text: text})
		if err != nil {
			return
		}
		want, err := NewReader("g", bytes.NewReader(line)).Next()
		if err != nil {
			t.Fatal(err)
		}
		g := load(t, crawled(t, []Edge{want}, ""))
		lines, err := csv.NewReader(strings.NewReader(export(t, g, "csv"))).ReadAll()
		if err != nil || len(lines) != 2 {
			t.Fatalf("%q: %v", lines, err)
		}
		normal := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
		if got := strings.TrimPrefix(lines[1][0], "'"); got != normal(from) && normal(want.From) == normal(from) && !strings.HasPrefix(from, "'") {
			t.Fatalf("%q, want %q", got, from)
		}
		if err := xml.Unmarshal([]byte(export(t, g, "graphml")), new(struct{})); err != nil {
			t.Fatal(err)
		}
		if q := quoteDOT(want.Text); strings.ContainsAny(q, "\n\r\t\x00") || strings.Count(strings.NewReplacer(`\\`, "", `\"`, "").Replace(q), `"`) != 2 {
			t.Fatalf("%q", q)
		}
	})
}
