package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// leaveIn is how long freeing the shards may take at the end.
const leaveIn = 5 * time.Second

// shards are those that this worker holds. The fields belong to the loop.
//
// Each live worker holds its own name, and may have its part of the shards: with w workers 256/w,
// and one more for the first ones by name. A worker that has more gives some up: it leases no more
// of their tasks, and frees them when their last download has ended. One that has fewer takes free
// ones. seek.go is for the case that some workers cannot do all tasks.
type shards struct {
	held    map[int]time.Time // since when
	leaving map[int]bool      // of held
	until   time.Time         // when the leases of the shards end, by our own clock
	asking  bool              // a call is under way
	next    time.Time         // when to call again
	seeker
}

func newShards() shards {
	return shards{held: map[int]time.Time{}, leaving: map[int]bool{}, seeker: seeker{sought: map[int]time.Time{}}}
}

// serves reports whether tasks of a shard are leased, and since when it is held.
func (s *shards) serves(shard int) (time.Time, bool) {
	since, ok := s.held[shard]
	return since, ok && !s.leaving[shard]
}

// served returns the shards whose tasks are leased, in order.
func (s *shards) served() []int {
	var all []int
	for shard := range s.held {
		if !s.leaving[shard] {
			all = append(all, shard)
		}
	}
	slices.Sort(all)
	return all
}

// left is called when a task of a shard has gone: the last task of a shard that is being given up frees it.
func (s *shards) left(l *loop, shard int) {
	if s.leaving[shard] && !l.busy()[shard] {
		s.next = time.Time{}
	}
}

// busy returns the shards that have tasks here.
func (l *loop) busy() map[int]bool {
	busy := map[int]bool{}
	for _, t := range l.tasks {
		busy[t.lease.Task.Shard] = true
	}
	return busy
}

// holding is what one call of holdShards has found.
type holding struct {
	held, gained []int
	give         int                  // how many are surplus
	pauses       map[string]time.Time // of hosts, until then
	seeking
	ok bool
}

// stepShards keeps the shards, takes some and gives up some.
func (l *loop) stepShards(now time.Time) time.Time {
	s := &l.shards
	if len(s.held) > 0 && !s.until.After(now) {
		l.opt.Log.Warn("shards lost: the store was not reached in time", "shards", len(s.held))
		l.dropShards(slices.Collect(maps.Keys(s.held)))
	}
	switch {
	case s.asking && len(s.held) > 0:
		return s.until
	case s.asking:
		return now.Add(forgetEvery)
	case now.Before(s.next):
		return s.next
	}
	var free, keep []int
	busy := l.busy()
	for shard := range s.held {
		if s.leaving[shard] && !busy[shard] {
			free = append(free, shard)
			delete(s.held, shard)
			delete(s.leaving, shard)
		} else {
			keep = append(keep, shard)
		}
	}
	leaving := len(s.leaving)
	s.asking, s.next = true, now.Add(l.opt.ShardFor/3)
	stopping := l.stopping
	seeker := s.seeker.copy()
	l.spawn(func() func(*loop) {
		ctx, cancel := context.WithTimeout(l.store, l.opt.ShardFor)
		defer cancel()
		got, err := l.holdShards(ctx, free, keep, leaving, stopping, seeker)
		var unknown error
		if got.ok && !stopping {
			if got.pauses, unknown = l.keptPauses(ctx); unknown != nil {
				got.gained = nil // they end by themselves
			}
		}
		if err = errors.Join(err, unknown); err != nil {
			l.storeFailed("shards", err)
		}
		return func(l *loop) { l.heldShards(got, keep, now) }
	})
	return s.next
}

// holdShards calls the store: it frees some shards, renews others, and takes missing ones.
func (l *loop) holdShards(ctx context.Context, free, keep []int, leaving int, stopping bool, seeker seeker) (holding, error) {
	var got holding
	store := l.opt.Store
	asked := time.Now()
	now, err := store.Now(ctx)
	if err != nil {
		return got, err
	}
	l.offset.Store(int64(now.Sub(asked)))
	if len(free) > 0 {
		if err := store.LetGo(ctx, l.opt.Owner, shardNames(free)); err != nil {
			return got, err // the leases end by themselves
		}
	}
	held, err := store.Hold(ctx, l.opt.Owner, append(shardNames(keep), l.ownNames()...), l.opt.ShardFor)
	if err != nil {
		return got, err
	}
	got.held, got.ok = shardsOf(held), true
	if stopping {
		return got, nil
	}
	workers, err := store.Holders(ctx, download.WorkerPrefix)
	if err != nil {
		return got, err
	}
	share := share(l.opt.Owner, workers)
	got.give = len(got.held) - leaving - share
	got.seeking = seeking{wants: seeker.wants}
	if len(workers) > 1 || len(seeker.wants) > 0 {
		if err := l.seek(ctx, &got, workers, seeker, share); err != nil {
			return got, err
		}
	}
	if got.give >= 0 {
		return got, nil
	}
	taken, err := store.Holders(ctx, download.ShardPrefix)
	if err != nil {
		return got, err
	}
	first := download.ShardOf(l.opt.Owner) // so that workers that start together try different ones
	var names []string
	for i := 0; i < download.Shards && len(names) < -got.give; i++ {
		if shard := (first + i) % download.Shards; taken[shardName(shard)] == "" && !got.others[shard] {
			names = append(names, shardName(shard))
		}
	}
	if len(names) == 0 {
		return got, nil
	}
	more, err := store.Hold(ctx, l.opt.Owner, names, l.opt.ShardFor)
	got.gained = append(got.gained, shardsOf(more)...)
	return got, err
}

// heldShards applies the result of a call that began at a time.
func (l *loop) heldShards(got holding, keep []int, began time.Time) {
	s := &l.shards
	s.asking = false
	if !got.ok {
		s.next = time.Now().Add(l.opt.ShardFor / 10)
		return
	}
	s.until = began.Add(l.opt.ShardFor)
	var lost []int
	for _, shard := range keep {
		if _, known := s.held[shard]; known && !slices.Contains(got.held, shard) {
			lost = append(lost, shard)
		}
	}
	if len(lost) > 0 {
		l.opt.Log.Warn("shards lost: another worker has them", "shards", len(lost))
		l.dropShards(lost)
	}
	now := time.Now()
	for _, shard := range got.gained {
		s.held[shard] = now
		delete(s.leaving, shard)
	}
	for host, until := range got.pauses {
		shard := download.ShardOf(host)
		since, held := s.held[shard]
		if !held {
			shard = -1
		}
		l.queue.resume(host, shard, since, until)
	}
	for _, h := range l.queue.hosts { // hosts that are known from an earlier time
		if since, ok := s.held[h.shard]; ok && h.asked.Before(since) {
			h.since(since)
			l.queue.place(h.pace)
		}
	}
	if len(got.gained) > 0 {
		l.leaseNext = time.Time{}
	}
	given := 0
	if !l.stopping {
		yields := l.yields(got.seeking, now)
		got.give -= len(yields)
		given = l.giveUp(append(yields, l.tooMany(got)...))
	}
	if len(got.gained) > 0 || given > 0 {
		l.opt.Log.Info("shards changed", "held", len(s.held), "gained", len(got.gained), "given up", given)
	}
}

// tooMany chooses the surplus shards: those without tasks first, and those that were asked for last.
func (l *loop) tooMany(got holding) []int {
	busy := l.busy()
	order := func(shard int) int {
		switch {
		case !l.shards.sought[shard].IsZero():
			return 3
		case busy[shard]:
			return 2
		case got.scarce[shard]:
			return 1
		}
		return 0
	}
	candidates := l.shards.served()
	slices.SortStableFunc(candidates, func(a, b int) int { return order(a) - order(b) })
	return candidates[:min(max(got.give, 0), len(candidates))]
}

// giveUp stops serving shards, and gives back their waiting tasks. It returns how many shards these are.
func (l *loop) giveUp(shards []int) int {
	slices.Sort(shards)
	shards = slices.Compact(shards)
	if len(shards) == 0 {
		return 0
	}
	for _, shard := range shards {
		l.shards.leaving[shard] = true
		delete(l.shards.sought, shard)
	}
	for _, t := range l.tasks {
		if l.shards.leaving[t.lease.Task.Shard] && l.queue.remove(t) {
			l.giveBack(t, time.Time{})
		}
	}
	l.shards.next = time.Time{} // shards without tasks can be freed now
	return len(shards)
}

// dropShards forgets shards that are lost, and cuts off their tasks, because others call their hosts now.
func (l *loop) dropShards(lost []int) {
	for _, shard := range lost {
		delete(l.shards.held, shard)
		delete(l.shards.leaving, shard)
		delete(l.shards.sought, shard)
	}
	for _, t := range l.tasks {
		if _, held := l.shards.held[t.lease.Task.Shard]; held {
			continue
		}
		if l.queue.remove(t) {
			l.giveBack(t, time.Time{})
		} else {
			t.cancel(errStopped)
		}
	}
}

// leave frees everything at the end.
func (l *loop) leave() {
	ctx, cancel := context.WithTimeout(l.store, leaveIn)
	defer cancel()
	names := append(shardNames(slices.Collect(maps.Keys(l.shards.held))), l.ownNames()...)
	names = append(names, wantedNames(l.shards.wants)...)
	if err := l.opt.Store.LetGo(ctx, l.opt.Owner, names); err != nil {
		l.opt.Log.Warn("shards not freed: they end by themselves", "err", err)
	}
	l.Worker.metrics.shards.Set(0)
}

// share is how many shards a worker may have.
func share(owner string, workers map[string]string) int {
	names := slices.Sorted(maps.Keys(workers))
	place := slices.Index(names, download.WorkerPrefix+owner)
	if place < 0 {
		return 0
	}
	n := download.Shards / len(names)
	if place < download.Shards%len(names) {
		n++
	}
	return n
}

func shardName(shard int) string { return download.ShardPrefix + strconv.Itoa(shard) }

func shardNames(shards []int) []string { return namesOf(download.ShardPrefix, shards) }

func shardsOf(names []string) []int { return numbersOf(download.ShardPrefix, names) }

func namesOf(prefix string, shards []int) []string {
	names := make([]string, 0, len(shards)+1)
	for _, shard := range shards {
		names = append(names, prefix+strconv.Itoa(shard))
	}
	return names
}

func numbersOf(prefix string, names []string) []int {
	var shards []int
	for _, name := range names {
		if n, ok := strings.CutPrefix(name, prefix); ok {
			if shard, err := strconv.Atoi(n); err == nil {
				shards = append(shards, shard)
			}
		}
	}
	return shards
}
