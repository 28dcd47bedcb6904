package download

import (
	"cmp"
	"slices"
)

// Level gives n places to queues that have some places already: each to one that has the fewest then, of
// several to the first. It returns how many each queue gets.
func Level(have []int, n int) []int {
	gets := make([]int, len(have))
	if len(have) == 0 || n <= 0 {
		return gets
	}
	order := make([]int, len(have))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(have[a], have[b]) })
	same := 1 // the first ones in order that come to the same level
	for same < len(order) {
		need := same * (have[order[same]] - have[order[same-1]])
		if need > n {
			break
		}
		n -= need
		same++
	}
	top := have[order[same-1]]
	lowest := slices.Clone(order[:same])
	slices.Sort(lowest)
	for i, at := range lowest {
		gets[at] = top - have[at] + n/same
		if i < n%same {
			gets[at]++
		}
	}
	return gets
}
