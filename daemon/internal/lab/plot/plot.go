// Package plot draws charts of points and lines with axes as SVG, which follows the reader's
// light or dark scheme, or as PNG, on white.
//
// It is for the few charts of the laboratory: gonum/plot, which can do more, would make the
// program, which is pushed to hosts, eight megabytes larger.
package plot

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Chart is a picture.
type Chart struct {
	Title  string
	Notes  string // under the title
	X, Y   Axis
	Series []Series
}

// Axis is one of a chart. Its range follows from the points.
type Axis struct {
	Label string
	Log   bool      // else from 0
	Ticks []float64 // nil: round values
}

// Series are points of one colour.
type Series struct {
	Name   string // "": it belongs to the one before, and has its colour
	Points []Point
	Line   bool // the points are joined, and not marked
}

// Joined are two series of one name: marked points, and the line through them.
func Joined(name string, points []Point) []Series {
	line := make([]Point, len(points))
	for i, p := range points {
		line[i] = Point{X: p.X, Y: p.Y}
	}
	return []Series{{Name: name, Points: points}, {Points: line, Line: true}}
}

// Point has a place; with an interval if High is more than Low; with a name if Label is not "".
type Point struct {
	X, Y      float64
	Low, High float64 // of Y
	Label     string
}

// Size of a picture in units of SVG, and the pixels of PNG for each.
const (
	width, height = 900.0, 560.0
	left, right   = 80.0, 200.0 // of the plane; the legend is on the right
	top, bottom   = 70.0, 60.0
	pixels        = 2
)

// canvas is drawn on. Colours are numbers of palette.
type canvas interface {
	line(x1, y1, x2, y2, thick float64, colour int)
	dot(x, y, radius float64, colour int)
	// text is written from x on, or up to it (anchor 1), or around it (0.5); y is the base line.
	text(x, y, size, anchor float64, colour int, s string)
	// upright is text from the bottom to the top, around y.
	upright(x, y, size float64, colour int, s string)
	bytes() ([]byte, error)
}

// Formats of files, by the ends of their names.
var formats = map[string]func() canvas{
	".svg": func() canvas { return newSVG() },
	".png": func() canvas { return newPNG() },
}

// Check says what is wrong with the name of a file for a picture, nil if nothing is.
func Check(name string) error {
	if formats[strings.ToLower(filepath.Ext(name))] == nil {
		return fmt.Errorf("plot %q: want a name that ends in .png or .svg", name)
	}
	return nil
}

// Write draws into a file, PNG or SVG by its name.
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

// SVG is the picture as text.
func (c Chart) SVG() ([]byte, error) { return c.draw(newSVG()) }

func (c Chart) draw(to canvas) ([]byte, error) {
	x, y := c.scales()
	x.from, x.to, y.from, y.to = left, width-right, height-bottom, top
	to.text(left, 28, 18, 0, ink, c.Title)
	to.text(left, 50, 12, 0, faint, c.Notes)
	for _, t := range x.ticks() {
		at := x.place(t)
		to.line(at, top, at, height-bottom, 1, grid)
		to.text(at, height-bottom+18, 12, 0.5, faint, number(t))
	}
	for _, t := range y.ticks() {
		at := y.place(t)
		to.line(left, at, width-right, at, 1, grid)
		to.text(left-8, at+4, 12, 1, faint, number(t))
	}
	to.text((left+width-right)/2, height-16, 13, 0.5, ink, c.X.Label)
	to.upright(22, (top+height-bottom)/2, 13, ink, c.Y.Label)
	named := 0
	for _, s := range c.Series {
		if s.Name != "" {
			legend(to, s, named)
			named++
		}
		colour := first + max(0, named-1)%colours
		for j, p := range s.Points {
			if p.High > p.Low {
				to.line(x.place(p.X), y.place(p.Low), x.place(p.X), y.place(p.High), 1.5, colour)
			}
			switch {
			case s.Line && j > 0:
				q := s.Points[j-1]
				to.line(x.place(q.X), y.place(q.Y), x.place(p.X), y.place(p.Y), 2, colour)
			case !s.Line:
				to.dot(x.place(p.X), y.place(p.Y), 3.5+min(1, 20/float64(len(s.Points))), colour)
			}
		}
	}
	c.label(to, x, y)
	return to.bytes()
}

// legend writes the name of a series beside the plane.
func legend(to canvas, s Series, i int) {
	colour, at := first+i%colours, top+12+20*float64(i)
	if s.Line {
		to.line(width-right+16, at, width-right+36, at, 2, colour)
	} else {
		to.dot(width-right+26, at, 4.5, colour)
	}
	to.text(width-right+44, at+4, 12, 0, ink, s.Name)
}

// label writes the names of points, each where it hides neither a point nor another name; a
// name for which there is no such place is joined to its point by a line.
func (c Chart) label(to canvas, x, y scale) {
	type box struct{ x1, y1, x2, y2 float64 }
	var taken []box
	for _, s := range c.Series {
		for _, p := range s.Points {
			if !s.Line {
				taken = append(taken, box{x.place(p.X) - 5, y.place(p.Y) - 5, x.place(p.X) + 5, y.place(p.Y) + 5})
			}
		}
	}
	free := func(b box) bool {
		if b.x1 < left || b.x2 > width-right+10 || b.y1 < top-12 || b.y2 > height-bottom {
			return false
		}
		for _, t := range taken {
			if b.x1 < t.x2 && t.x1 < b.x2 && b.y1 < t.y2 && t.y1 < b.y2 {
				return false
			}
		}
		return true
	}
	const size = 11.0
	for _, s := range c.Series {
		for _, p := range s.Points {
			if p.Label == "" {
				continue
			}
			px, py, wide := x.place(p.X), y.place(p.Y), textWidth(p.Label, size)
			found := false
			for ring := 0; ring < 14 && !found; ring++ {
				far := 8 + 9*float64(ring)
				for _, d := range [][2]float64{{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {0.7, -0.7}, {-0.7, -0.7}, {0.7, 0.7}, {-0.7, 0.7}} {
					bx, by := px+far*d[0]-wide/2+wide/2*d[0], py+far*d[1]
					b := box{bx - 2, by - size/2 - 1, bx + wide + 2, by + size/2 + 1}
					if !free(b) {
						continue
					}
					taken, found = append(taken, b), true
					if ring > 0 {
						to.line(px, py, min(max(px, b.x1), b.x2), min(max(py, b.y1), b.y2), 0.7, faint)
					}
					to.text(bx, by+size/2-1.5, size, 0, ink, p.Label)
					break
				}
			}
		}
	}
}

// textWidth is about how wide a text is.
func textWidth(s string, size float64) float64 { return 0.56 * size * float64(len([]rune(s))) }

// number writes the value of a tick.
func number(v float64) string {
	if v != 0 && (math.Abs(v) < 1e-3 || math.Abs(v) >= 1e6) {
		return strconv.FormatFloat(v, 'e', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// scale turns values into places.
type scale struct {
	log      bool
	fixed    []float64 // ticks, if given
	low, top float64   // of the values
	from, to float64   // of the places
}

func (c Chart) scales() (x, y scale) {
	x, y = scale{log: c.X.Log, fixed: c.X.Ticks}, scale{log: c.Y.Log, fixed: c.Y.Ticks}
	for _, s := range c.Series {
		for _, p := range s.Points {
			x.hold(p.X)
			y.hold(p.Y)
			if p.High > p.Low {
				y.hold(p.Low)
				y.hold(p.High)
			}
		}
	}
	x.widen()
	y.widen()
	return x, y
}

// hold widens the range to a value. What a logarithm cannot show is left out.
func (s *scale) hold(v float64) {
	if s.log && v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if s.low == 0 && s.top == 0 {
		s.low, s.top = v, v
	}
	s.low, s.top = min(s.low, v), max(s.top, v)
}

// widen leaves some room beside the values.
func (s *scale) widen() {
	switch {
	case s.log && s.low <= 0:
		s.low, s.top = 0.1, 10
	case s.log:
		s.low, s.top = s.low/1.4, s.top*1.4
		if s.top/s.low < 20 { // so that there are at least two ticks
			s.low, s.top = s.low/2, s.top*2
		}
	default:
		s.low = min(s.low, 0)
		if s.top == s.low {
			s.top = s.low + 1
		}
		s.top += (s.top - s.low) / 20
	}
}

func (s scale) place(v float64) float64 {
	share := (v - s.low) / (s.top - s.low)
	if s.log {
		share = math.Log(max(v, s.low)/s.low) / math.Log(s.top/s.low)
	}
	return s.from + min(max(share, 0), 1)*(s.to-s.from)
}

// ticks are round values within the range.
func (s scale) ticks() []float64 {
	if s.fixed != nil {
		return s.fixed
	}
	var all []float64
	if s.log {
		decades := math.Log10(s.top / s.low)
		for e := math.Floor(math.Log10(s.low)); e <= math.Log10(s.top); e++ {
			for _, m := range []float64{1, 2, 5} {
				v := m * math.Pow(10, e)
				if v >= s.low && v <= s.top && (m == 1 || decades < 2.5) {
					all = append(all, v)
				}
			}
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10((s.top-s.low)/4)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (s.top-s.low)/(step*m) <= 8 {
			step *= m
			break
		}
	}
	for v := math.Ceil(s.low/step) * step; v <= s.top; v += step {
		all = append(all, math.Round(v/step)*step)
	}
	return all
}
