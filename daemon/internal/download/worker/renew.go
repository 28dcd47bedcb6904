package worker

import (
	"context"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// lose cuts off a task whose lease is lost.
func (l *loop) lose(t *task) {
	if t.lost {
		return
	}
	t.lost = true
	t.cancel(errLost)
	if l.queue.remove(t) {
		l.attempts.WithLabelValues(resultLost).Inc()
		l.gone(t)
	}
}

// stepRenew renews the leases, and cuts off tasks whose lease has expired by our own clock.
func (l *loop) stepRenew(now time.Time) time.Time {
	if len(l.tasks) == 0 && !l.renewing {
		l.renewNext = now.Add(l.opt.LeaseFor / 3)
	}
	if now.Before(l.renewNext) {
		return l.renewNext
	}
	l.renewNext = now.Add(l.opt.LeaseFor / 6)
	var leases []download.Lease
	for _, t := range l.tasks {
		if !t.until.After(now) {
			l.lose(t)
		} else if !t.lost {
			leases = append(leases, t.lease)
		}
	}
	if l.renewing || len(leases) == 0 {
		return l.renewNext
	}
	l.renewing = true
	l.spawn(func() func(*loop) {
		ctx, cancel := context.WithTimeout(l.store, l.opt.LeaseFor)
		defer cancel()
		lost, err := l.opt.Store.Renew(ctx, l.opt.Owner, leases, l.opt.LeaseFor)
		if err != nil {
			l.storeFailed("renew", err)
		}
		return func(l *loop) {
			l.renewing = false
			for _, lease := range leases {
				t := l.tasks[lease.Task.ID]
				switch {
				case t == nil || t.lease.Task.Fence != lease.Task.Fence:
				case slices.Contains(lost, lease.Task.ID):
					l.lose(t)
				case err == nil:
					t.until = now.Add(l.opt.LeaseFor)
				}
			}
			if err == nil {
				l.renewNext = now.Add(l.opt.LeaseFor / 3)
			}
		}
	})
	return l.renewNext
}

// stepLate gives back tasks with a long wait ahead, if they block others.
func (l *loop) stepLate(now time.Time) time.Time {
	if l.running == l.opt.Concurrency || l.opt.Window-len(l.tasks) >= l.minRoom() || now.Before(l.lateNext) {
		return l.lateNextAfter(now)
	}
	l.lateNext = now.Add(l.opt.Bound)
	offset := time.Duration(l.offset.Load())
	for _, late := range l.queue.late(now, now.Add(l.opt.Bound)) {
		if l.queue.remove(late.task) {
			l.giveBack(late.task, late.at.Add(offset))
		}
	}
	return l.lateNext
}

func (l *loop) lateNextAfter(now time.Time) time.Time {
	if l.lateNext.After(now) {
		return l.lateNext
	}
	return now.Add(forgetEvery)
}

// cutOff ends all running downloads.
func (l *loop) cutOff(cause error) {
	for _, t := range l.tasks {
		t.cancel(cause)
	}
}
