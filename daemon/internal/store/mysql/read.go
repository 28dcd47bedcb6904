package mysql

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/cr-clawer/urifilter/daemon/internal/store/mysql/redolog"
)

// waitForRead waits until the commits of others that c has read are durable; if c is a transaction, its
// commit waits for them. A call that has changed nothing itself is answered only then.
func (s *Store) waitForRead(ctx context.Context, c querier) error {
	if !s.opt.Durable {
		return nil
	}
	batch := rand.Uint64()
	return redolog.Wait(ctx, c, fmt.Sprintf("insert into %s (batch, k, state) values (%d, '', 0)", reservedTable, batch),
		fmt.Sprintf("delete from %s where batch = %d", reservedTable, batch))
}
