package exact

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
)

// countSets is the least number of sets that are counted in one go, during which batches wait:
// about a millisecond.
const countSets = 1000

// items is how many items there are below each root: as last counted, and what this daemon has
// added and taken out since.
type items struct {
	of     [roots]atomic.Int64
	total  atomic.Int64
	cursor int // of the counter; only one counts at a time
}

func (c *items) add(root uint16, n int64) {
	c.of[root].Add(n)
	c.total.Add(n)
}

// set records what was counted, while nobody adds.
func (c *items) set(root uint16, n int64) { c.total.Add(n - c.of[root].Swap(n)) }

func (c *items) sum() uint64 { return uint64(max(0, c.total.Load())) }

// CountNext implements base.Counted: it counts the items below the next roots.
func (s *Set) CountNext(ctx context.Context) (last bool, err error) {
	end, err := s.Begin()
	if err != nil {
		return true, nil // not in sync, or dropped
	}
	defer end()
	s.counting.Lock()
	defer s.counting.Unlock()
	for counted := 0; counted < countSets; {
		var due []node
		limit := max(1, (countSets-counted)>>(fanBits*s.tree.base)) // each has at least so many sets below it
		for ; s.items.cursor < roots && len(due) < limit; s.items.cursor++ {
			due = append(due, node{root: uint16(s.items.cursor)})
		}
		if len(due) == 0 {
			s.items.cursor = 0
			return true, nil
		}
		n, err := s.count(ctx, due)
		if err != nil {
			s.items.cursor = 0
			return true, err
		}
		counted += n
	}
	return false, nil
}

// count counts the items below nodes, each of them a root, and returns how many sets there were.
func (s *Set) count(ctx context.Context, nodes []node) (sets int, err error) {
	found := map[uint16]int64{}
	for _, n := range nodes {
		found[n.root] = 0
	}
	for len(nodes) > 0 {
		var below []node
		ask := nodes[:0:0]
		for _, n := range nodes {
			if s.tree.isSplit(n) {
				for i := range fan {
					below = append(below, n.child(i))
				}
				continue
			}
			ask = append(ask, n)
		}
		sizes := make([]*redis.IntCmd, len(ask))
		_, sent := s.Servers.Batches.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, n := range ask {
				sizes[i] = p.SCard(ctx, string(n.appendKey(nil, s.Prefix)))
			}
			return nil
		})
		for i, n := range ask {
			switch err := sizes[i].Err(); {
			case err == nil:
				found[n.root] += sizes[i].Val()
				sets++
			case forgotten.IsMoved(err) && n.level < deepest:
				s.tree.note(n)
				for c := range fan {
					below = append(below, n.child(c))
				}
			default:
				return sets, errors.Join(err, sent)
			}
		}
		nodes = below
	}
	for root, n := range found {
		s.items.set(root, n)
	}
	return sets, nil
}
