package worker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// keepPause has the store keep the pause of a host: see download.PausePrefix.
func (l *loop) keepPause(host string, until time.Time) {
	name := fmt.Sprint(download.PausePrefix, l.storeNow().Add(time.Until(until)).UnixMilli(), "/", host)
	l.spawn(func() func(*loop) {
		ctx, cancel := context.WithTimeout(l.store, l.opt.ShardFor)
		defer cancel()
		if _, err := l.opt.Store.Hold(ctx, l.opt.Owner, []string{name}, time.Until(until)); err != nil {
			l.storeFailed("pause", err)
		}
		return func(*loop) {}
	})
}

// keptPauses reads the pauses that hosts have asked for. Redirects lead to hosts of any shard.
func (l *loop) keptPauses(ctx context.Context) (map[string]time.Time, error) {
	names, err := l.opt.Store.Holders(ctx, download.PausePrefix)
	pauses := map[string]time.Time{}
	for name := range names {
		end, host, _ := strings.Cut(strings.TrimPrefix(name, download.PausePrefix), "/")
		millis, err := strconv.ParseInt(end, 10, 64)
		if err == nil {
			left := min(time.UnixMilli(millis).Sub(l.storeNow()), maxAfter)
			pauses[host] = later(pauses[host], time.Now().Add(left))
		}
	}
	return pauses, err
}

// resume has a host go on with a pause that it has asked for elsewhere.
func (q *queue) resume(name string, shard int, since, until time.Time) {
	h := q.host(name, shard, since)
	h.notBefore = later(h.notBefore, until)
	h.kept = h.notBefore
	q.place(h.pace)
}
