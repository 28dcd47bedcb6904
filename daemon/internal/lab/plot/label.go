package plot

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// label writes the name of every point, each where it hides neither a point nor another name. Points that touch and
// have the same name have it once; those that hide each other have one that lists theirs. A name that is not beside its point is joined to it by a line, which crosses
// nothing either if possible.
func (c Chart) label(to canvas, x, y scale) {
	type box struct{ x1, y1, x2, y2 float64 }
	var taken []box
	for _, s := range c.Series {
		for _, p := range s.Points {
			if !s.Line {
				wide := max(6, s.Ring+1)
				taken = append(taken, box{x.place(p.X) - wide, y.place(p.Y) - wide, x.place(p.X) + wide, y.place(p.Y) + wide})
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
	for _, n := range c.names(x, y) {
		px, py, wide := n.x, n.y, textWidth(n.text, size)
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
				to.text(bx+anchor*wide, by+size/2-1.5, size, anchor, ink, n.text)
				break
			}
		}
		if found {
			continue
		}
		// It is crowded: the free place that is nearest, anywhere.
		best, least := box{px, py, px + wide, py + size}, math.Inf(1)
		for by := top; by+size <= height-bottom; by += size / 2 {
			for bx := left + 4; bx+wide <= width-right; bx += size / 2 {
				b := box{bx - 2, by - 1, bx + wide + 2, by + size + 1}
				if far := math.Hypot(bx+wide/2-px, by+size/2-py); far < least && free(b) {
					best, least = b, far
				}
			}
		}
		taken = append(taken, best)
		to.line(px, py, min(max(px, best.x1), best.x2), min(max(py, best.y1), best.y2), 0.7, faint)
		to.text((best.x1+best.x2)/2, best.y2-2.5, size, 0.5, ink, n.text)
	}
}

const size = 11.0 // of names

// name is what is written beside a point, or beside points that are in one place.
type name struct {
	x, y float64
	text string
}

// names are those of all points. Points that hide each other have one name that lists theirs, while
// that is short.
func (c Chart) names(x, y scale) (all []name) {
	const touch, hide, maxWide = 10, 4, 220
	type place struct{ x, y float64 }
	named := map[string][]place{}
	for _, s := range c.Series {
		for _, p := range s.Points {
			px, py := x.place(p.X), y.place(p.Y)
			near := func(x, y, limit float64) bool { return math.Hypot(x-px, y-py) < limit }
			if p.Label == "" || slices.ContainsFunc(named[p.Label], func(o place) bool { return near(o.x, o.y, touch) }) {
				continue
			}
			named[p.Label] = append(named[p.Label], place{px, py})
			i := slices.IndexFunc(all, func(n name) bool {
				return near(n.x, n.y, hide) && textWidth(n.text+", "+p.Label, size) <= maxWide
			})
			if i < 0 {
				all = append(all, name{px, py, p.Label})
				continue
			}
			all[i].text += ", " + p.Label
		}
	}
	return all
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
