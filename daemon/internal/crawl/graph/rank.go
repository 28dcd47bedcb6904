package graph

import "math"

// damping is the share of visitors who follow a link (Brin and Page 1998).
const damping = 0.85

// PageRank is the rank of each URI; they add up to 1. Links of a page to itself do not count. URIs that were not
// stored have no known links, so their rank goes to all. It is iterated from equal ranks until none changes by more
// than a billionth of the mean, and rounded to a millionth of it.
func (g *Graph) PageRank() []float64 {
	n := float64(len(g.uris))
	ranks, next := make([]float64, len(g.uris)), make([]float64, len(g.uris))
	for id := range ranks {
		ranks[id] = 1 / n
	}
	for change := 1.0; change > 1e-9/n; ranks, next = next, ranks {
		clear(next)
		toAll := 0.0
		for from, rank := range ranks {
			leads := 0.0
			for range g.others(from) {
				leads++
			}
			if leads == 0 {
				toAll += rank
			}
			for to := range g.others(from) {
				next[to] += rank / leads
			}
		}
		change = 0
		for id := range next {
			next[id] = (1-damping+damping*toAll)/n + damping*next[id]
			change = max(change, math.Abs(next[id]-ranks[id]))
		}
	}
	for id := range ranks {
		ranks[id] = math.Floor(ranks[id]*n*1e6+1/math.Pi) / 1e6 / n // a share, so that no short fraction is at a border
	}
	return ranks
}

// others yields where a page leads, other than to itself.
func (g *Graph) others(from int) func(func(to uint32) bool) {
	return func(yield func(uint32) bool) {
		for _, to := range g.links(uint32(from)) {
			if int(to) != from && !yield(to) {
				return
			}
		}
	}
}

// inDegree is how many other pages lead to each URI.
func (g *Graph) inDegree() []int32 {
	degrees := make([]int32, len(g.uris))
	for from := range g.uris {
		for to := range g.others(from) {
			degrees[to]++
		}
	}
	return degrees
}
