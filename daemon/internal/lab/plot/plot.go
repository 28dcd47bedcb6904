// Package plot draws charts of points and lines with axes as SVG, which follows the reader's
// light or dark scheme, or as PNG, on white.
//
// It is for the few charts of the laboratory: gonum/plot can do more, but would make the program,
// which is pushed to hosts, eight megabytes larger.
package plot

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Chart is a picture.
type Chart struct {
	Title  string
	Notes  string // under the title
	X, Y   Axis
	Series []Series
}

// Axis is an axis of a chart. Its range follows from the points.
type Axis struct {
	Label string
	Log   bool
	From  float64   `json:",omitempty"` // where it begins, unless it is logarithmic or a value is below
	Ticks []float64 // nil: round values
	Names []string  `json:",omitempty"` // of Ticks; nil: their numbers
}

// name is what is written at a tick.
func (a Axis) name(i int, tick float64) string {
	if a.Names != nil {
		return a.Names[i]
	}
	return number(tick)
}

// Series are points of one colour.
type Series struct {
	Name   string // "": it belongs to the one before, and has its colour
	Points []Point
	Line   bool // the points are joined, and not marked
	// Ring is the radius of a ring that marks each point; 0: a dot. A ring around a dot shows both.
	Ring float64 `json:",omitempty"`
}

// Joined returns two series with one name: marked points, and the line through them.
func Joined(name string, points []Point) []Series {
	line := make([]Point, len(points))
	for i, p := range points {
		line[i] = Point{X: p.X, Y: p.Y}
	}
	return []Series{{Name: name, Points: points}, {Points: line, Line: true}}
}

// Point is a place, with an interval if High is more than Low, and a name if Label is not "".
type Point struct {
	X, Y      float64
	Low, High float64 // of Y
	Label     string
}

// The size of a picture in units of SVG, and the pixels of a PNG for each unit.
const (
	width, height = 900.0, 560.0
	left, right   = 96.0, 200.0 // of the plane; the legend is on the right
	top, bottom   = 70.0, 60.0
	pixels        = 2
)

// canvas is what a chart is drawn on. Colours are indexes into palette.
type canvas interface {
	line(x1, y1, x2, y2, thick float64, colour int)
	dot(x, y, radius float64, colour int)
	// text writes from x on (anchor 0), up to x (1) or around x (0.5); y is the baseline.
	text(x, y, size, anchor float64, colour int, s string)
	// upright writes text from the bottom to the top, around y.
	upright(x, y, size float64, colour int, s string)
	bytes() ([]byte, error)
}

// formats are the file formats, by the endings of file names.
var formats = map[string]func() canvas{
	".svg": func() canvas { return newSVG() },
	".png": func() canvas { return newPNG() },
}

// Check returns what is wrong with the file name of a picture; nil if nothing is.
func Check(name string) error {
	if formats[strings.ToLower(filepath.Ext(name))] == nil {
		return fmt.Errorf("plot %q: want a name that ends in .png or .svg", name)
	}
	return nil
}

// Write draws the chart into a file, as PNG or SVG depending on its name.
func (c Chart) Write(name string) error {
	if err := Check(name); err != nil {
		return err
	}
	picture, err := c.draw(formats[strings.ToLower(filepath.Ext(name))]())
	if err != nil {
		return fmt.Errorf("plot %s: %w", name, err)
	}
	return os.WriteFile(name, picture, 0o644) //nolint:gosec // a picture for everybody
}

// SVG returns the picture as text.
func (c Chart) SVG() ([]byte, error) { return c.draw(newSVG()) }

func (c Chart) draw(to canvas) ([]byte, error) {
	x, y := c.scales()
	x.from, x.to, y.from, y.to = left, width-right, height-bottom, top
	to.text(left, 28, 18, 0, ink, c.Title)
	to.text(left, 50, 12, 0, faint, c.Notes)
	for i, t := range x.ticks() {
		at := x.place(t)
		to.line(at, top, at, height-bottom, 1, grid)
		to.text(at, height-bottom+18, 12, 0.5, faint, c.X.name(i, t))
	}
	for i, t := range y.ticks() {
		at := y.place(t)
		to.line(left, at, width-right, at, 1, grid)
		to.text(left-8, at+4, 12, 1, faint, c.Y.name(i, t))
	}
	to.text((left+width-right)/2, height-16, 13, 0.5, ink, c.X.Label)
	to.upright(22, (top+height-bottom)/2, 13, ink, c.Y.Label)
	named := 0
	for _, s := range c.Series {
		if s.Name != "" {
			legend(to, s, named)
			named++
		}
	}
	for _, line := range []bool{true, false} { // no line hides a point
		c.series(to, x, y, line)
	}
	c.label(to, x, y)
	return to.bytes()
}

// series draws either the series that are lines or those that are points.
func (c Chart) series(to canvas, x, y scale, line bool) {
	named := 0
	for _, s := range c.Series {
		if s.Name != "" {
			named++
		}
		if s.Line != line {
			continue
		}
		colour := first + max(0, named-1)%colours
		for j, p := range s.Points {
			if p.High > p.Low {
				to.line(x.place(p.X), y.place(p.Low), x.place(p.X), y.place(p.High), 1.5, colour)
			}
			switch {
			case line && j > 0:
				q := s.Points[j-1]
				to.line(x.place(q.X), y.place(q.Y), x.place(p.X), y.place(p.Y), 2, colour)
			case s.Ring > 0:
				ring(to, x.place(p.X), y.place(p.Y), s.Ring, colour)
			case !line:
				to.dot(x.place(p.X), y.place(p.Y), 3.5+min(1, 20/float64(len(s.Points))), colour)
			}
		}
	}
}

func ring(to canvas, x, y, radius float64, colour int) {
	const corners = 24
	px, py := x+radius, y
	for i := 1; i <= corners; i++ {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		qx, qy := x+radius*cos, y+radius*sin
		to.line(px, py, qx, qy, 1.6, colour)
		px, py = qx, qy
	}
}

// legend writes the name of a series beside the plane.
func legend(to canvas, s Series, i int) {
	colour, at := first+i%colours, top+12+20*float64(i)
	if s.Line {
		to.line(width-right+16, at, width-right+36, at, 2, colour)
	} else if s.Ring > 0 {
		ring(to, width-right+26, at, s.Ring, colour)
	} else {
		to.dot(width-right+26, at, 4.5, colour)
	}
	to.text(width-right+44, at+4, 12, 0, ink, s.Name)
}
