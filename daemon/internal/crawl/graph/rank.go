package graph

import (
	"iter"
	"math"
)

// damping is the share of visitors who follow a link (Brin and Page 1998).
const damping = 0.85

const maxRounds = 300 // 0.85 to the power of 300 is below 1e-21

// PageRank is the rank of each URI; they add up to 1. Links of a page to itself do not count. URIs that were not
// stored have no known links, so their rank goes to all. It is iterated from equal ranks until none changes by more
// than a billionth of the mean, and rounded to a millionth of it. Each round leaves 0.85 of the error at most: rounds
// beyond maxRounds would change nothing but the last bits of a number, and could do so for ever.
func (g *Graph) PageRank() []float64 {
	n := float64(len(g.uris))
	ranks, next, leads := make([]float64, len(g.uris)), make([]float64, len(g.uris)), make([]float64, len(g.uris))
	for id := range ranks {
		ranks[id] = 1 / n
		for range g.others(id) {
			leads[id]++
		}
	}
	for round, change := 0, 1.0; round < maxRounds && change > 1e-9/n; round++ {
		clear(next)
		toAll := 0.0
		for from, rank := range ranks {
			if leads[from] == 0 {
				toAll += rank
			}
			for to := range g.others(from) {
				next[to] += rank / leads[from]
			}
		}
		change = 0
		for id := range next {
			next[id] = (1-damping+damping*toAll)/n + damping*next[id]
			change = max(change, math.Abs(next[id]-ranks[id]))
		}
		ranks, next = next, ranks
	}
	for id := range ranks {
		ranks[id] = math.Floor(ranks[id]*n*1e6+1/math.Pi) / 1e6 / n // a share, so that no short fraction is at a border
	}
	return ranks
}

// others yields where a page leads, other than to itself.
func (g *Graph) others(from int) iter.Seq[uint32] {
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
