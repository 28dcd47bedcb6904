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
	"slices"
	"strconv"
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
	if counts["circle"] != 4 { // three points, and the one in the legend
		t.Errorf("got %d dots, want 4", counts["circle"])
	}
	for _, want := range []string{"a < b & c", "notes", "time", "rate", "one", "same place", "points", "line", "prefers-color-scheme: dark"} {
		if !strings.Contains(texts, want) {
			t.Errorf("not written: %s", want)
		}
	}
}

func TestNoRacePNGHasEveryColour(t *testing.T) {
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
		t.Errorf("a folder that does not exist: got %v", err)
	}
}

// A value that a logarithm or an empty range cannot show moves no scale and is drawn inside the plane.
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

// An axis begins where it is told to, unless a value is lower.
func TestAxisBegins(t *testing.T) {
	c := Chart{X: Axis{From: 40}, Y: Axis{From: 40}, Series: []Series{{Points: []Point{{X: 50, Y: 5}, {X: 125, Y: 50}}}}}
	if x, y := c.scales(); x.low != 40 || y.low != 5 || x.ticks()[0] != 40 {
		t.Errorf("got %+v, %+v", x, y)
	}
}

func TestNumbersOfTicks(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1e-6: "0.000001", 1e-8: "1e-08", 0.25: "0.25", 100: "100", 1000: "1,000", 250000: "250,000", 1e6: "1,000,000", -1234.5: "-1,234.5", 1e12: "1e+12",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

// A name hides no point, whatever its letters: its text is anchored at the end next to its point.
func TestNamesHideNoPoints(t *testing.T) {
	var points []Point
	for i := range 8 {
		points = append(points, Point{X: 1 + float64(i)/20, Y: 1 + float64(i%3)/20, Label: "WWW MMM"})
	}
	c := Chart{X: Axis{Log: true}, Y: Axis{Log: true}, Series: []Series{{Name: "crowd", Points: points}}}
	x, y := c.scales()
	x.from, x.to, y.from, y.to = left, width-right, height-bottom, top
	to := &names{}
	c.label(to, x, y)
	if len(to.boxes) != len(points) {
		t.Fatalf("%d names of %d", len(to.boxes), len(points))
	}
	for _, b := range to.boxes {
		for _, p := range points {
			if px, py := x.place(p.X), y.place(p.Y); px+4 > b[0] && px-4 < b[2] && py+4 > b[1] && py-4 < b[3] {
				t.Errorf("a name from %v hides the point at %.0f, %.0f", b, px, py)
			}
		}
	}
}

// TestEveryPointIsNamed: however crowded points are, each has its name, and no name is over a point or another name.
func TestEveryPointIsNamed(t *testing.T) {
	var points []Point
	for i := range 60 {
		points = append(points, Point{X: 1 + float64(i)/2000, Y: 1 + float64(i*i%7)/2000, Label: "name " + strconv.Itoa(i)})
	}
	points = append(points, Point{X: 9, Y: 9})
	c := Chart{Series: []Series{{Name: "crowd", Points: points}, {Name: "the same", Points: points, Ring: 7}}}
	x, y := c.scales()
	x.from, x.to, y.from, y.to = left, width-right, height-bottom, top
	to := &names{}
	c.label(to, x, y)
	found := strings.Split(strings.Join(to.texts, ", "), ", ")
	if slices.Sort(found); len(slices.Compact(found)) != 60 {
		t.Fatalf("%d names of 60: %q", len(found), found)
	}
	for i, b := range to.boxes {
		for _, o := range to.boxes[:i] {
			if b[0] < o[2] && o[0] < b[2] && b[1] < o[3] && o[1] < b[3] {
				t.Errorf("names are over each other: %.0f and %.0f", b, o)
			}
		}
		for _, p := range points {
			if px, py := x.place(p.X), y.place(p.Y); px+3 > b[0] && px-3 < b[2] && py+3 > b[1] && py-3 < b[3] {
				t.Errorf("a name at %.0f hides the point at %.0f, %.0f", b, px, py)
			}
		}
	}
}

// Points in one place have one name that lists theirs, in whatever series they are; those beside
// them have their own.
func TestPointsInOnePlaceShareAName(t *testing.T) {
	c := Chart{Series: []Series{
		{Points: []Point{{X: 1, Y: 1, Label: "a"}, {X: 1, Y: 1, Label: "b"}, {X: 1.5, Y: 1, Label: "c"}, {X: 9, Y: 9}}},
		{Points: []Point{{X: 1, Y: 1, Label: "a"}, {X: 1.005, Y: 1, Label: "d"}}, Ring: 7},
	}}
	x, y := c.scales()
	x.from, x.to, y.from, y.to = left, width-right, height-bottom, top
	to := &names{}
	c.label(to, x, y)
	if want := []string{"a, b, d", "c"}; !slices.Equal(to.texts, want) {
		t.Errorf("got %q, want %q", to.texts, want)
	}
}

// Ticks may have names of their own.
func TestNamesOfTicks(t *testing.T) {
	text, err := Chart{X: Axis{Log: true, Ticks: []float64{10, 100}, Names: []string{"p90", "p99"}}, Series: []Series{{Points: []Point{{X: 1, Y: 1}, {X: 100, Y: 2}}}}}.SVG()
	if err != nil || !strings.Contains(string(text), ">p90<") || !strings.Contains(string(text), ">p99<") {
		t.Errorf("%v\n%s", err, text)
	}
}

// names is a canvas that records where texts are, in a font whose capitals are wide.
type names struct {
	canvas
	boxes [][4]float64
	texts []string
}

func (n *names) line(_, _, _, _, _ float64, _ int) {}

func (n *names) text(x, y, size, anchor float64, _ int, s string) {
	wide := size * 0.87 * float64(len(s)-1)
	if strings.HasPrefix(s, "name ") {
		wide = textWidth(s, size)
	}
	from := x - anchor*wide
	n.texts = append(n.texts, s)
	n.boxes = append(n.boxes, [4]float64{from, y - 0.72*size, from + wide, y})
}
