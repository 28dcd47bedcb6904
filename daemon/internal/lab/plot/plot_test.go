package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var chart = Chart{
	Title: "a < b & c", Notes: "notes", X: Axis{Label: "time", Log: true}, Y: Axis{Label: "rate"},
	Series: []Series{
		{Name: "points", Points: []Point{{X: 1, Y: 2, Low: 1, High: 3, Label: "one"}, {X: 1, Y: 2, Label: "same place"}, {X: 900, Y: 7}}},
		{Name: "line", Line: true, Points: []Point{{X: 1, Y: 1}, {X: 10, Y: 4}, {X: 100, Y: 9}}},
	},
}

func TestSVGIsWellFormed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.svg")
	if err := chart.Write(name); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	counts, texts := map[string]int{}, ""
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			counts[token.Name.Local]++
		case xml.CharData:
			texts += string(token) + "\n"
		}
	}
	if counts["circle"] != 4 { // three points, and the one of the legend
		t.Errorf("got %d dots, want 4", counts["circle"])
	}
	for _, want := range []string{"a < b & c", "notes", "time", "rate", "one", "same place", "points", "line", "prefers-color-scheme: dark"} {
		if !strings.Contains(texts, want) {
			t.Errorf("not written: %s", want)
		}
	}
}

func TestPNGHasEveryColour(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.PNG")
	if err := chart.Write(name); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if img.Bounds().Dx() != width*pixels || img.Bounds().Dy() != height*pixels {
		t.Errorf("got %v", img.Bounds())
	}
	found := map[uint32]int{}
	for x := range img.Bounds().Dx() {
		for y := range img.Bounds().Dy() {
			r, g, b, _ := img.At(x, y).RGBA()
			found[r>>8<<16|g>>8<<8|b>>8]++
		}
	}
	for _, colour := range []int{ink, faint, grid, first, first + 1} {
		if found[palette[colour][0]] < 50 {
			t.Errorf("colour %d: %d pixels", colour, found[palette[colour][0]])
		}
	}
}

func TestFilesThatAreNoPictures(t *testing.T) {
	if err := chart.Write("a.gif"); err == nil || err.Error() != `plot "a.gif": want a name that ends in .png or .svg` {
		t.Errorf("got %v", err)
	}
	if err := chart.Write(filepath.Join(t.TempDir(), "none", "a.svg")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: got %v", err)
	}
}

// What a logarithm or an empty range cannot show moves no scale and is drawn within the plane.
func TestScales(t *testing.T) {
	c := Chart{X: Axis{Log: true}, Y: Axis{Log: true}, Series: []Series{{Points: []Point{{X: 10, Y: 0}, {X: 100, Y: math.NaN()}, {X: 1000, Y: 5}}}}}
	x, y := c.scales()
	if x.low > 10 || x.top < 1000 || y.low <= 0 || y.top < 5 || len(y.ticks()) < 2 {
		t.Errorf("got %+v, %+v with the ticks %v", x, y, y.ticks())
	}
	x.from, x.to = 0, 100
	if a, b := x.place(10), x.place(1000); a <= 0 || b >= 100 || math.Abs(x.place(100)-(a+b)/2) > 1e-9 {
		t.Errorf("a logarithm: got %v, %v, %v", a, x.place(100), b)
	}
	for _, c := range []Chart{{}, {Series: []Series{{Points: []Point{{X: 0, Y: 0}}}}}} {
		x, _ := c.scales()
		if len(x.ticks()) < 2 || math.IsNaN(x.place(0)) {
			t.Errorf("nothing to show: %+v, %v", x, x.ticks())
		}
	}
}
