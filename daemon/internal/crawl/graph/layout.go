package graph

import (
	"math"
	"slices"
)

// Sizes of a picture, in pixels.
const (
	ring   = 150.0 // between two rings, at least
	room   = 17.0  // for a label on its ring
	margin = 190.0 // around the outermost marks, for labels

	minWidth = 760.0 // so that the line below the legend fits
)

// layout says where the nodes of a picture are: a tree of shortest ways from the seeds, with a ring
// for each number of links from them (a radial tree, see Wills 1999). A branch gets as much of the
// circle as its leaves need.
type layout struct {
	g      *Graph
	shown  []uint32 // parents before their children
	place  map[uint32]*place
	radius float64 // of the outermost ring
}

type place struct {
	parent   uint32 // its own id for a seed
	children []uint32
	depth    int
	leaves   int
	angle    float64
	x, y     float64
}

// lay places the most important URIs, with those on the way to them, at most so many.
func (g *Graph) lay(ranks []float64, limit int) *layout {
	l := &layout{g: g, place: map[uint32]*place{}}
	parent := g.tree()
	for _, id := range g.order(g.inDegree(), ranks, ByPageRank) {
		var way []uint32 // from id up to the nodes shown already
		for at := id; l.place[at] == nil; at = parent[at] {
			way = append(way, at)
			if parent[at] == at {
				break
			}
		}
		if len(l.shown)+len(way) > limit {
			continue // another one may be nearer
		}
		for _, at := range slices.Backward(way) {
			l.add(at, parent[at])
		}
	}
	l.arrange()
	return l
}

func (l *layout) add(id, parent uint32) {
	p := &place{parent: parent}
	if up := l.place[parent]; up != nil {
		p.depth = up.depth + 1
		up.children = append(up.children, id)
	}
	l.place[id] = p
	l.shown = append(l.shown, id)
}

// tree says from where each URI is first reached, breadth first from the seeds. Seeds are those of
// the index, or else the first URI of the file, and URIs that cannot be reached from them.
func (g *Graph) tree() []uint32 {
	parent := make([]uint32, len(g.uris))
	seen := make([]bool, len(g.uris))
	var queue []uint32
	reach := func(id, from uint32) {
		if !seen[id] {
			seen[id], parent[id] = true, from
			queue = append(queue, id)
		}
	}
	follow := func() {
		for ; len(queue) > 0; queue = queue[1:] {
			for _, to := range g.links(queue[0]) {
				reach(to, queue[0])
			}
		}
	}
	for id := range g.uris {
		if g.page[id].depth == 0 {
			reach(uint32(id), uint32(id))
		}
	}
	follow()
	for id := range g.uris {
		reach(uint32(id), uint32(id))
		follow()
	}
	return parent
}

func (l *layout) seeds() []uint32 {
	return slices.DeleteFunc(slices.Clone(l.shown), func(id uint32) bool { return l.place[id].parent != id })
}

func (l *layout) arrange() {
	deepest := 0
	for _, id := range slices.Backward(l.shown) {
		p := l.place[id]
		p.leaves = max(1, p.leaves)
		deepest = max(deepest, p.depth)
		if p.parent != id {
			l.place[p.parent].leaves += p.leaves
		}
	}
	seeds := l.seeds()
	if deepest += min(1, len(seeds)-1); deepest == 0 { // several seeds get a separate ring
		deepest = 1
	}
	leaves := 0
	for _, id := range seeds {
		leaves += l.place[id].leaves
	}
	step := max(ring, float64(leaves)*room/(2*math.Pi)/float64(deepest))
	l.radius = step * float64(deepest)
	from := -math.Pi / 2
	for _, id := range seeds {
		wide := 2 * math.Pi * float64(l.place[id].leaves) / float64(max(1, leaves))
		l.spread(id, from, wide, step, min(1, len(seeds)-1))
		from += wide
	}
}

// spread gives a branch its part of the circle. Its recursion is as deep as the tree, which is
// bounded by the number of nodes in a picture.
func (l *layout) spread(id uint32, from, wide, step float64, inner int) {
	p := l.place[id]
	p.angle = from + wide/2
	r := step * float64(p.depth+inner)
	p.x, p.y = r*math.Cos(p.angle), r*math.Sin(p.angle)
	for _, child := range p.children {
		part := wide * float64(l.place[child].leaves) / float64(p.leaves)
		l.spread(child, from, part, step, inner)
		from += part
	}
}
