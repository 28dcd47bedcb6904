package exact

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/table"
)

// Lay implements filter.Filter.
func (s *Set) Lay(ctx context.Context) error {
	s.look(ctx)
	if _, err := s.log.Lay(ctx); err != nil {
		return err
	}
	_, err := s.log.Whole(ctx)
	return err
}

// Learn implements filter.Filter: the items themselves are asked for when they come.
func (s *Set) Learn(ctx context.Context) (lost bool, err error) {
	s.look(ctx)
	whole, err := s.log.Whole(ctx)
	return !whole, err
}

// Distrust implements filter.Forgetful.
func (s *Set) Distrust() { s.log.Distrust() }

// Stop implements filter.Filter: it takes out what nobody was told of, and what was
// forgotten and is there again.
func (s *Set) Stop(ctx context.Context, _ bool) error {
	s.tree.forget()
	if err := s.log.Restore(ctx, s.dropped); err != nil {
		return err
	}
	if err := s.undoPending(ctx, s.Servers.Admin); !errors.Is(err, forgotten.ErrBusy) {
		return err
	}
	return nil // the next batch takes them out, when the witnesses count from where they did
}

func (s *Set) dropped(ctx context.Context) (bool, error) { return s.Registry.Dropped(ctx, s.Entry) }

// Resync implements filter.Filter: it puts back what the mirror has. The witnesses come first
// and are looked at again in the end, so that a Redis which is flushed meanwhile does not
// pass for resynced.
func (s *Set) Resync(ctx context.Context) (gone bool, err error) {
	if s.Enter() != nil {
		return false, nil // dropped meanwhile
	}
	defer s.Use.RUnlock()
	if gone, err = s.log.Lay(ctx); err != nil {
		return gone, err
	}
	// What others forgot is not put back.
	if whole, err := s.log.Whole(ctx); err != nil || !whole {
		return true, orLost(err)
	}
	var keys []bloom.Hash
	for part := range table.Parts {
		keys = s.mirror.Part(part, keys[:0])
		for rest := keys; len(rest) > 0; {
			n := min(servers.PieceItems, len(rest))
			if err := s.putBack(ctx, rest[:n]); err != nil {
				return gone, err
			}
			rest = rest[n:]
		}
	}
	if whole, err := s.log.Whole(ctx); err != nil || !whole {
		return true, orLost(err)
	}
	return gone, nil
}

// orLost is why witnesses are not there.
func orLost(err error) error {
	if err == nil {
		err = insync.ErrLost
	}
	return err
}

func (s *Set) putBack(ctx context.Context, keys []bloom.Hash) error {
	for len(keys) > 0 {
		nodes := make([]node, len(keys))
		cmds := make([]*redis.IntCmd, len(keys))
		_, sent := s.Servers.Admin.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				nodes[i] = s.tree.leaf(key)
				cmds[i] = p.SAdd(ctx, string(nodes[i].appendKey(nil, s.prefix)), int64(key.Lo))
				if g := forgotten.GroupOf(key); s.log.Reserving(g) { // it was committed, or taken after its lease
					p.HDel(ctx, s.log.LeasesKey(g), forgotten.Encode(key))
				}
			}
			return nil
		})
		var moved []bloom.Hash
		for i, cmd := range cmds {
			switch err := cmd.Err(); {
			case err == nil:
			case !forgotten.IsMoved(err):
				return err
			case nodes[i].level >= deepest:
				return registry.Foreign(string(nodes[i].appendKey(nil, s.prefix)))
			default:
				s.tree.note(nodes[i])
				moved = append(moved, keys[i])
			}
		}
		if sent != nil && len(moved) == 0 {
			return sent
		}
		keys = moved
	}
	return nil
}
