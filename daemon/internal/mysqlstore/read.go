package mysqlstore

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/cr-clawer/urifilter/daemon/internal/mysqlstore/redolog"
)

// waitForRead waits until what a connection has read, and what others have committed, is durable; if c
// is a transaction, its commit waits. An answer that follows from that, and not from a change of its own, needs it.
func (s *Store) waitForRead(ctx context.Context, c querier) error {
	if !s.opt.Durable {
		return nil
	}
	batch := rand.Uint64()
	return redolog.Wait(ctx, c, fmt.Sprintf("insert into %s (batch, k, state) values (%d, '', 0)", reservedTable, batch),
		fmt.Sprintf("delete from %s where batch = %d", reservedTable, batch))
}
