package graph

import (
	"math"

	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/network"
)

// damping is the share of visitors who follow a link (Brin and Page 1998).
const damping = 0.85

// PageRank is the rank of each URI; they add up to 1. Links of a page to itself do not count. URIs that were not
// stored have no known links, so their rank goes to all. It is rounded to a millionth of the mean: gonum starts at random.
func (g *Graph) PageRank() []float64 {
	n := float64(len(g.uris))
	ranks := make([]float64, len(g.uris))
	if n == 0 {
		return ranks
	}
	for id, rank := range network.PageRankSparse(directed{g}, damping, 1e-9/n) {
		ranks[id] = math.Floor(rank*n*1e6+1/math.Pi) / 1e6 / n // a share, so that no short fraction is at a border
	}
	return ranks
}

// inDegree is how many other pages lead to each URI.
func (g *Graph) inDegree() []int32 {
	degrees := make([]int32, len(g.uris))
	for from := range g.uris {
		for _, to := range g.links(uint32(from)) {
			if to != uint32(from) {
				degrees[to]++
			}
		}
	}
	return degrees
}

// directed presents a Graph to gonum's PageRank without copying it.
type directed struct{ g *Graph }

func (d directed) Node(id int64) graph.Node {
	if id < 0 || id >= int64(len(d.g.uris)) {
		return nil
	}
	return node(id)
}

func (d directed) Nodes() graph.Nodes {
	return &nodes{end: uint32(len(d.g.uris)), self: math.MaxUint32}
}

func (d directed) From(id int64) graph.Nodes {
	list := d.g.links(uint32(id))
	return &nodes{list: list, end: uint32(len(list)), self: uint32(id)}
}

func (d directed) HasEdgeFromTo(from, to int64) bool {
	for _, id := range d.g.links(uint32(from)) {
		if int64(id) == to && from != to {
			return true
		}
	}
	return false
}

func (d directed) HasEdgeBetween(x, y int64) bool {
	return d.HasEdgeFromTo(x, y) || d.HasEdgeFromTo(y, x)
}

func (d directed) Edge(from, to int64) graph.Edge {
	if !d.HasEdgeFromTo(from, to) {
		return nil
	}
	return edge{node(from), node(to)}
}

func (d directed) To(id int64) graph.Nodes {
	var list []uint32
	for from := range d.g.uris {
		if d.HasEdgeFromTo(int64(from), id) {
			list = append(list, uint32(from))
		}
	}
	return &nodes{list: list, end: uint32(len(list)), self: uint32(id)}
}

type node int64

func (n node) ID() int64 { return int64(n) }

type edge struct{ from, to node }

func (e edge) From() graph.Node         { return e.from }
func (e edge) To() graph.Node           { return e.to }
func (e edge) ReversedEdge() graph.Edge { return edge{e.to, e.from} }

// nodes iterates over a list, or for a nil list over all numbers below end; self is left out.
type nodes struct {
	list      []uint32
	next, end uint32
	self      uint32
	at        uint32
}

func (n *nodes) Next() bool {
	for n.next < n.end {
		n.at = n.next
		if n.list != nil {
			n.at = n.list[n.next]
		}
		if n.next++; n.at != n.self {
			return true
		}
	}
	return false
}

func (n *nodes) Node() graph.Node { return node(n.at) }
func (n *nodes) Reset()           { n.next = 0 }

// Len is how many remain.
func (n *nodes) Len() int {
	left := int(n.end - n.next)
	for _, id := range n.list[min(int(n.next), len(n.list)):] {
		if id == n.self {
			left--
		}
	}
	return left
}
