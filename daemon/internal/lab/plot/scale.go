package plot

import (
	"math"
	"strconv"
	"strings"
)

// scale turns values into places.
type scale struct {
	log      bool
	fixed    []float64 // ticks, if given
	least    float64   // where it begins, unless a value is below
	low, top float64   // of the values
	from, to float64   // of the places
}

func newScale(a Axis) scale { return scale{log: a.Log, fixed: a.Ticks, least: a.From} }

func (c Chart) scales() (x, y scale) {
	x, y = newScale(c.X), newScale(c.Y)
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

// hold widens the range to include a value. Values that a logarithmic axis cannot show are left
// out.
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
		s.low = min(s.low, s.least)
		if s.top <= s.low {
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

// number writes the value of a tick as manuals write it: 0.00001, 1,000,000.
func number(v float64) string {
	switch size := math.Abs(v); {
	case v != 0 && (size < 1e-7 || size >= 1e10):
		return strconv.FormatFloat(v, 'e', 0, 64)
	case size < 1000:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	whole, part, broken := strings.Cut(strconv.FormatFloat(math.Abs(v), 'f', -1, 64), ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if broken {
		whole += "." + part
	}
	if v < 0 {
		whole = "-" + whole
	}
	return whole
}
