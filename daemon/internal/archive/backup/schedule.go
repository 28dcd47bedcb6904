package backup

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/archive"
)

// The wait between two attempts to reconcile: the first, doubled each time up to the second.
const (
	reconcileFirst = 500 * time.Millisecond
	reconcileMost  = 30 * time.Second
)

// Reconcile brings store and archive together, and retries until that is done or ctx ends.
func (k *Copier) Reconcile(ctx context.Context) {
	for wait := reconcileFirst; ; wait = min(2*wait, reconcileMost) {
		err := k.engine.Reconcile(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			k.log.Info("store and archive agree on the filters", "filters", len(k.engine.Filters()))
			return
		}
		k.log.Warn("the archive cannot be read; filters that the store has are served, others wait",
			"waiting", k.engine.Waiting(), "again_in", wait, "err", err)
		if !sleep(ctx, wait) {
			return
		}
	}
}

// Every writes all bit-maps back, one after the other, each time interval has passed. If the
// archive cannot be reached, the round ends: the others would each wait for it in vain. The interval varies by a tenth, so that daemons that were started together drift apart. Every
// returns when ctx ends.
func (k *Copier) Every(ctx context.Context, interval time.Duration) {
	for sleep(ctx, jittered(interval)) {
		var unreachable error
		for _, f := range k.engine.Filters() {
			if _, err := f.BitMap(); err != nil {
				continue
			}
			if unreachable != nil {
				k.metrics.failed.add("writeback", f.Name)
				k.log.Error("writeback not tried", "filter", f.Name, "err", unreachable)
				continue
			}
			_, err := k.Writeback(ctx, f.Name, nil)
			var busy *BusyError
			var lease *archive.LeaseError
			switch {
			case ctx.Err() != nil:
				return
			case errors.As(err, &busy), errors.As(err, &lease):
				k.log.Info("scheduled writeback skipped: another daemon is writing back", "filter", f.Name, "reason", err)
			case errors.Is(err, archive.ErrUnreachable):
				unreachable = archive.ErrUnreachable
			}
			// Other errors were logged and counted; the next round is another try.
		}
	}
}

func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
