package graph

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
)

// MaxPicture is how many URIs a picture may have; more would be illegible.
const MaxPicture = 500

// How many characters of a URI are beside its mark: fewer if others follow on the next ring.
const (
	maxLabel  = 30
	maxInside = 18
)

// Colours of the hosts that are drawn most (Okabe and Ito 2008, which colour-blind people can tell
// apart), and of all others.
var (
	hostColours = []string{"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442"}
	otherColour = "#999999"
	deadColour  = "#d00000"
)

// Picture draws the most important URIs of the graph, at most so many, as SVG, and returns how many it
// has drawn. Seeds are in the middle; each ring is one link farther from them. The area of a mark grows
// with the PageRank. It needs no other program; for a larger graph, Graphviz can draw the export.
func (g *Graph) Picture(w io.Writer, limit int) (int, error) {
	ranks := g.PageRank()
	d := drawing{layout: g.lay(ranks, min(limit, MaxPicture)), w: bufio.NewWriter(w), ranks: ranks, colour: map[string]string{}}
	d.colourHosts()
	for _, id := range d.shown {
		d.best = max(d.best, ranks[id])
	}
	d.draw()
	return len(d.shown), d.w.Flush()
}

// colourHosts gives each of the hosts that are drawn most a separate colour.
func (d *drawing) colourHosts() {
	count := map[string]int{}
	for _, id := range d.shown {
		count[hostOf(d.g.uris[id])]++
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	d.hosts = names[:min(len(names), len(hostColours))]
	d.others = len(names) - len(d.hosts)
	for i, name := range d.hosts {
		d.colour[name] = hostColours[i]
	}
}

// drawing writes a picture. Flush returns the errors of w.
type drawing struct {
	*layout
	w      *bufio.Writer
	ranks  []float64
	best   float64 // the highest rank shown
	colour map[string]string
	hosts  []string // with a separate colour
	others int      // number of hosts without one
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d.w, format, args...) }

func (d *drawing) text(s string) { _ = xml.EscapeText(d.w, []byte(s)) }

func (d *drawing) draw() {
	left, top, right, bottom := d.bounds()
	width, height := right-left, bottom-top+16*float64(len(d.hosts)+5) // with the legend below
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="%.0f %.0f %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="11">`+"\n",
		left, top, width, height, width, height)
	d.printf(`<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f" fill="white"/>`+"\n", left, top, width, height)
	d.links()
	for _, id := range d.shown {
		d.node(id)
	}
	d.legend(left+12, bottom)
	d.printf("</svg>\n")
}

// bounds encloses all marks, with room for their labels; the legend fits below.
func (d *drawing) bounds() (left, top, right, bottom float64) {
	left, right = -minWidth/2+margin, minWidth/2-margin
	for _, p := range d.place {
		left, right = min(left, p.x), max(right, p.x)
		top, bottom = min(top, p.y), max(bottom, p.y)
	}
	return left - margin, top - margin, right + margin, bottom + margin
}

// links draws the links of the tree, and the others lighter, bent towards the middle.
func (d *drawing) links() {
	for _, from := range d.shown {
		a := d.place[from]
		for _, to := range d.g.links(from) {
			b := d.place[to]
			if b == nil || from == to {
				continue
			}
			if b.parent == from {
				d.printf(`<path d="M%.1f %.1fL%.1f %.1f" stroke="#666" stroke-width="1" fill="none"/>`+"\n", a.x, a.y, b.x, b.y)
				continue
			}
			d.printf(`<path d="M%.1f %.1fQ%.1f %.1f %.1f %.1f" stroke="#88a" stroke-opacity="0.25" stroke-width="0.8" fill="none"/>`+"\n",
				a.x, a.y, (a.x+b.x)*0.3, (a.y+b.y)*0.3, b.x, b.y)
		}
	}
}

func (d *drawing) size(id uint32) float64 {
	if d.best == 0 {
		return 4
	}
	return 3 + 9*math.Sqrt(d.ranks[id]/d.best)
}

func (d *drawing) node(id uint32) {
	p, uri, r := d.place[id], d.g.uris[id], d.size(id)
	isWeb := strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://")
	if isWeb {
		d.printf(`<a href="`)
		d.text(uri)
		d.printf(`">`)
	}
	fill, stroke := d.colour[hostOf(uri)], "white"
	if fill == "" {
		fill = otherColour
	}
	switch {
	case d.g.dead(id):
		fill, stroke = deadColour, deadColour
	case !d.g.page[id].stored: // it is known only from links
		fill, stroke = "white", fill
	}
	d.printf(`<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s" stroke="%s" stroke-width="1.5"><title>`, p.x, p.y, r, fill, stroke)
	d.text(uri)
	d.printf(" (PageRank %.4f", d.ranks[id])
	if status := d.g.page[id].status; status != 0 {
		d.printf(", status %d", status)
	}
	d.printf(")</title></circle>")
	d.label(p, uri, r)
	if isWeb {
		d.printf("</a>")
	}
	d.printf("\n")
}

// label is written along the line from the middle, never upside down.
func (d *drawing) label(p *place, uri string, r float64) {
	anchor, angle, away := "start", p.angle*180/math.Pi, r+3
	limit := maxLabel
	if len(p.children) > 0 {
		limit = maxInside
	}
	switch {
	case p.x == 0 && p.y == 0:
		d.printf(`<text x="0" y="%.1f" text-anchor="middle" font-weight="bold" stroke="white" stroke-width="3" paint-order="stroke" fill="#222">`, -r-5)
		d.text(labelOf(uri, false, maxLabel))
		d.printf("</text>")
		return
	case math.Cos(p.angle) < 0:
		anchor, angle, away = "end", angle+180, -away
	}
	d.printf(`<text transform="translate(%.1f %.1f)rotate(%.1f)" x="%.1f" y="4" text-anchor="%s" stroke="white" stroke-width="3" stroke-opacity="0.8" paint-order="stroke" fill="#222">`, p.x, p.y, angle, away, anchor)
	d.text(labelOf(uri, hostOf(uri) != hostOf(d.g.uris[p.parent]), limit))
	d.printf("</text>")
}

// labelOf is the end of a path, or the host if there is no path, in readable form; for another host
// than its parent's it is both, from the beginning.
func labelOf(uri string, otherHost bool, limit int) string {
	label := uri
	if i := strings.Index(uri, "://"); i >= 0 {
		if slash := strings.IndexAny(uri[i+3:], "/?"); slash >= 0 && len(uri) > i+3+slash+1 && !otherHost {
			label = uri[i+3+slash:]
		} else {
			label = strings.TrimSuffix(uri[i+3:], "/")
		}
	}
	if plain, err := url.PathUnescape(label); err == nil {
		label = strings.ToValidUTF8(plain, "\ufffd")
	}
	runes := []rune(label)
	if len(runes) > limit && otherHost {
		return string(runes[:limit-1]) + "…"
	}
	if len(runes) > limit {
		return "…" + string(runes[len(runes)-limit+1:])
	}
	return label
}

func (d *drawing) legend(x, y float64) {
	line := func(fill, stroke, text string) {
		d.printf(`<circle cx="%.0f" cy="%.0f" r="5" fill="%s" stroke="%s" stroke-width="1.5"/><text x="%.0f" y="%.0f">`, x, y, fill, stroke, x+12, y+4)
		d.text(text)
		d.printf("</text>\n")
		y += 16
	}
	for _, host := range d.hosts {
		line(d.colour[host], "white", host)
	}
	if d.others > 0 {
		line(otherColour, "white", fmt.Sprintf("%d other hosts", d.others))
	}
	line("white", "#666", "known by links to it, not stored")
	line(deadColour, deadColour, "dead: a status of 400 or more, or no answer")
	d.printf(`<text x="%.0f" y="%.0f" fill="#555">%d of %d URIs, those with the highest PageRank and the way to them; each ring is a link farther from the seeds</text>`+"\n",
		x-6, y+4, len(d.shown), len(d.g.uris))
}
