package graph

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// drawnTexts returns the texts of a picture and the targets of its links; it must be XML.
func drawnTexts(t *testing.T, svg string) (texts, targets []string) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(svg))
	inText := false
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return texts, targets
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
			for _, a := range token.Attr {
				if a.Name.Local == "href" {
					targets = append(targets, a.Value)
				}
			}
		case xml.CharData:
			if inText {
				texts = append(texts, string(token))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func picture(t *testing.T, g *Graph, limit int) (svg string, shown int) {
	t.Helper()
	var b bytes.Buffer
	shown, err := g.Picture(&b, limit)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), shown
}

func TestPictureShowsHostileURIs(t *testing.T) {
	t.Parallel()
	edges := append(hostile(), Edge{From: "http://a.example/", To: "javascript:alert(1)"}, Edge{From: "http://a.example/", To: `http://a.example/"><script>x</script>`})
	g := load(t, crawled(t, edges, `{"uri":"http://a.example/","status":200,"depth":0}`+"\n"+`{"uri":"http://a.example/b","status":404,"depth":1}`+"\n"))
	svg, shown := picture(t, g, 100)
	if shown != g.URIs() {
		t.Errorf("%d URIs are drawn, want %d", shown, g.URIs())
	}
	texts, targets := drawnTexts(t, svg)
	for _, want := range []string{"a.example", "/b", `/"><script>x</script>`, `/\`, "dead: a status of 400 or more, or no answer"} {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is not drawn; drawn are %q", want, texts)
		}
	}
	for _, target := range targets {
		if !strings.HasPrefix(target, "http://") {
			t.Errorf("the picture leads to %q", target)
		}
	}
	if again, _ := picture(t, g, 100); again != svg {
		t.Error("another picture of the same graph differs")
	}
}

// TestLayout: every mark has a separate place, on the ring of its distance, within its parent's branch.
func TestLayout(t *testing.T) {
	t.Parallel()
	var edges []Edge
	for i := 1; i < 400; i++ {
		edges = append(edges, link(fmt.Sprint("a/", (i-1)/3), fmt.Sprint("a/", i)), link(fmt.Sprint("a/", i), "a/0"))
	}
	g := load(t, crawled(t, edges, ""))
	for _, most := range []int{1, 2, 60, 400, 1000} {
		l := g.lay(g.PageRank(), most)
		if want := min(most, 400); len(l.shown) != want {
			t.Errorf("%d are shown, want %d", len(l.shown), want)
		}
		at := map[[2]int]uint32{}
		for _, id := range l.shown {
			p := l.place[id]
			if l.place[p.parent] == nil {
				t.Fatalf("%s is shown without the page that leads to it", g.uris[id])
			}
			if r := math.Hypot(p.x, p.y); r > l.radius+1 || p.depth == 0 && r != 0 {
				t.Errorf("%s is %v from the middle, of %v", g.uris[id], r, l.radius)
			}
			spot := [2]int{int(math.Round(p.x)), int(math.Round(p.y))}
			if other, ok := at[spot]; ok {
				t.Errorf("%s is where %s is", g.uris[id], g.uris[other])
			}
			at[spot] = id
		}
	}
}

func TestPictureOfLittle(t *testing.T) {
	t.Parallel()
	for _, edges := range [][]Edge{nil, {link("a/", "a/")}, {link("a/", "a/"), link("b/", "b/")}} {
		svg, shown := picture(t, load(t, crawled(t, edges, "")), 50)
		if drawnTexts(t, svg); shown != len(edges) || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%d URIs of %d: %s", shown, len(edges), svg)
		}
	}
}
