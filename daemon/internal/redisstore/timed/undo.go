package timed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
)

// undos are items of a timing filter that are still to be taken out of Redis, as the batch
// that set them failed and no caller was told.
type undos struct {
	size atomic.Int64 // so that batches need no lock while there are none

	mu    sync.Mutex
	items []undoItem
}

type undoItem struct {
	key   bloom.Hash
	until int64 // milliseconds of the mirror's clock: by then it may have expired
}

func (u *undos) add(items []undoItem) {
	if len(items) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.items = append(u.items, items...)
	u.size.Store(int64(len(u.items)))
}

func (u *undos) take() []undoItem {
	if u.size.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	items := u.items
	u.items = nil
	u.size.Store(0)
	return items
}

// removal is one UNLINK.
type removal struct{ redis.IntCmd }

// NoRetry keeps go-redis from removing an item twice: it may have been accepted again.
func (*removal) NoRetry() bool { return true }

var errTooLate = errors.New("an item is about to expire, and may then be another caller's")

// undo takes items out of Redis by c. Others may have been called duplicates of them, by
// calls that the failed batch had not ended before; whoever asks afterwards gets them as
// new. An error says that some may still be there: those for which no command was sent are
// left for the next time. Where a reply was lost, another daemon may have given the item
// out since, so that it is tried again with in_doubt: new only.
func (s *Set) undo(ctx context.Context, c redis.UniversalClient, items []undoItem) error {
	soon := s.mirror.Now() + s.Servers.Timeout().Milliseconds()
	var tooLate error
	for len(items) > 0 {
		n := min(servers.PieceItems, len(items))
		var cmds []*removal
		var sent []undoItem
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, item := range items[:n] {
				if item.until <= soon {
					tooLate = errTooLate
					continue
				}
				cmd := &removal{*redis.NewIntCmd(ctx, "unlink", string(s.key(nil, item.key)))}
				cmds, sent = append(cmds, cmd), append(sent, item)
				if err := p.Process(ctx, cmd); err != nil {
					return err
				}
			}
			return nil
		})
		items = items[n:]
		if err == nil {
			continue
		}
		for i, cmd := range cmds {
			if cmd.Err() == nil {
				continue
			}
			if v := servers.VerdictOf(cmd.Err()); v == servers.Undone || s.DoubtIsNew {
				s.undos.add(sent[i : i+1])
			}
		}
		s.undos.add(items)
		return err
	}
	return tooLate
}

// undoPending is undo for what batches before have left.
func (s *Set) undoPending(ctx context.Context, c redis.UniversalClient) error {
	err := s.undo(ctx, c, s.undos.take())
	if errors.Is(err, errTooLate) {
		return nil // they expire
	}
	return err
}
