package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// The colours: of text, of explanations, of the grid, and of series. Colour-blind people can tell
// those of series apart (after Okabe and Ito, Color Universal Design, 2008).
const (
	ink = iota
	faint
	grid
	first
	colours = 6
)

// palette has each colour for the light scheme and for the dark one, as red, green and blue.
var palette = [first + colours][2]uint32{
	{0x1a1a1a, 0xececec}, {0x666666, 0xaaaaaa}, {0xe2e2e2, 0x383838},
	{0x0072b2, 0x56b4e9}, {0xd55e00, 0xff8c42}, {0x009e73, 0x2fd3a4},
	{0x9a4f7c, 0xe398c4}, {0x8a6d00, 0xe6c229}, {0x444444, 0xcccccc},
}

type svg struct{ b bytes.Buffer }

func newSVG() *svg {
	s := new(svg)
	fmt.Fprintf(&s.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="Helvetica, Arial, sans-serif">`+"\n<style>\n", width, height)
	s.scheme(0, 0xffffff)
	s.b.WriteString("@media (prefers-color-scheme: dark) {\n")
	s.scheme(1, 0x161616)
	s.b.WriteString("}\n</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n")
	return s
}

func (s *svg) scheme(i int, paper uint32) {
	fmt.Fprintf(&s.b, ".paper { fill: #%06x }\n", paper)
	for n, c := range palette {
		fmt.Fprintf(&s.b, ".f%d { fill: #%06x } .s%d { stroke: #%06x }\n", n, c[i], n, c[i])
	}
}

func (s *svg) line(x1, y1, x2, y2, thick float64, colour int) {
	fmt.Fprintf(&s.b, `<line class="s%d" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke-width="%g"/>`+"\n", colour, x1, y1, x2, y2, thick)
}

func (s *svg) dot(x, y, radius float64, colour int) {
	fmt.Fprintf(&s.b, `<circle class="f%d" cx="%.1f" cy="%.1f" r="%g"/>`+"\n", colour, x, y, radius)
}

func (s *svg) text(x, y, size, anchor float64, colour int, text string) {
	at := map[float64]string{0: "start", 0.5: "middle", 1: "end"}[anchor]
	fmt.Fprintf(&s.b, `<text class="f%d" x="%.1f" y="%.1f" font-size="%g" text-anchor="%s">`, colour, x, y, size, at)
	s.escaped(text)
}

func (s *svg) upright(x, y, size float64, colour int, text string) {
	fmt.Fprintf(&s.b, `<text class="f%d" transform="translate(%.1f %.1f) rotate(-90)" font-size="%g" text-anchor="middle">`, colour, x, y, size)
	s.escaped(text)
}

func (s *svg) escaped(text string) {
	_ = xml.EscapeText(&s.b, []byte(text)) // a buffer accepts everything
	s.b.WriteString("</text>\n")
}

func (s *svg) bytes() ([]byte, error) { return append(s.b.Bytes(), "</svg>\n"...), nil }
