package plot

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// label writes the names of points, each where it hides neither a point nor another name. A name
// that is not beside its point is joined to it by a line, which crosses nothing either if
// possible.
func (c Chart) label(to canvas, x, y scale) {
	type box struct{ x1, y1, x2, y2 float64 }
	var taken []box
	for _, s := range c.Series {
		for _, p := range s.Points {
			if !s.Line {
				taken = append(taken, box{x.place(p.X) - 6, y.place(p.Y) - 6, x.place(p.X) + 6, y.place(p.Y) + 6})
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
	// along returns small boxes on the way from a point to its name, without those within the
	// point's own box.
	along := func(px, py, qx, qy float64) (all []box) {
		steps := math.Ceil(math.Hypot(qx-px, qy-py) / 3)
		for i := 1.0; i < steps; i++ {
			x, y := px+(qx-px)*i/steps, py+(qy-py)*i/steps
			if math.Abs(x-px) > 7 || math.Abs(y-py) > 7 {
				all = append(all, box{x - 1, y - 1, x + 1, y + 1})
			}
		}
		return all
	}
	const size = 11.0
	for _, s := range c.Series {
		for _, p := range s.Points {
			if p.Label == "" {
				continue
			}
			px, py, wide := x.place(p.X), y.place(p.Y), textWidth(p.Label, size)
			found := false
			const rings = 14
			for ring := 0; ring < 2*rings && !found; ring++ {
				far, crosses := 9+9*float64(ring%rings), ring >= rings
				for _, d := range [][2]float64{{1, 0}, {-1, 0}, {0, -1}, {0, 1}, {0.7, -0.7}, {-0.7, -0.7}, {0.7, 0.7}, {-0.7, 0.7}} {
					bx, by := px+far*d[0]-wide/2+wide/2*d[0], py+far*d[1]
					b := box{bx - 2, by - size/2 - 1, bx + wide + 2, by + size/2 + 1}
					qx, qy := min(max(px, b.x1), b.x2), min(max(py, b.y1), b.y2)
					way := along(px, py, qx, qy)
					if !free(b) || ring > 0 && !crosses && slices.ContainsFunc(way, func(b box) bool { return !free(b) }) {
						continue
					}
					taken, found = append(taken, b), true
					if ring > 0 {
						taken = append(taken, way...)
						to.line(px, py, qx, qy, 0.7, faint)
					}
					// Fonts differ: a text that is wider than estimated extends away from its
					// point.
					anchor := 0.5
					switch {
					case d[0] > 0:
						anchor = 0
					case d[0] < 0:
						anchor = 1
					}
					to.text(bx+anchor*wide, by+size/2-1.5, size, anchor, ink, p.Label)
					break
				}
			}
		}
	}
}

// textWidth estimates how wide a text is in a font such as Helvetica.
func textWidth(s string, size float64) (wide float64) {
	for _, r := range s {
		switch {
		case strings.ContainsRune("fijlrtI.,:;'|!()- ", r):
			wide += 0.33
		case strings.ContainsRune("mwMW%", r):
			wide += 0.89
		case unicode.IsUpper(r):
			wide += 0.7
		default:
			wide += 0.56
		}
	}
	return wide * size
}
