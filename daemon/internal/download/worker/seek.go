package worker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// soughtTurns is how long a sought shard is kept before it may be given up again, as a multiple of ShardFor.
const soughtTurns = 4

// seeker is the part of a worker that asks other workers for shards.
//
// Only the holder of a shard calls its hosts, but it may lack the engine or not serve the lane of some
// tasks. A worker that can do ready tasks of a shard whose holder cannot do them asks for the shard: it
// holds download.WantedPrefix with its number. The holder then gives the shard up, like a surplus one, and
// only the asker takes it. The asker now has too many, and gives up others. So parts stay equal, and no two
// workers ever call one host. The asker keeps the shard until none of these tasks are ready, or for a turn.
type seeker struct {
	sought map[int]time.Time // shards that we asked for and hold, and when their turn ends
	wants  []int             // shards that we ask for
	after  int               // the last shard that we asked for: the search goes on behind it
}

func (s seeker) copy() seeker {
	return seeker{sought: maps.Clone(s.sought), wants: slices.Clone(s.wants), after: s.after}
}

// seeking is what one call of seek has found.
type seeking struct {
	wants  []int
	asked  []int        // those of gained that we asked for
	wanted []int        // shards that others ask for, whoever holds them
	others map[int]bool // the same as a set
	scarce map[int]bool // shards with ready tasks that we can do and some other worker cannot; nil if unknown
}

// seek reads which workers ask for which shards, takes those of ours that are free, and asks for more.
func (l *loop) seek(ctx context.Context, got *holding, workers map[string]string, seeker seeker, share int) error {
	store, owner := l.opt.Store, l.opt.Owner
	wanted, err := store.Holders(ctx, download.WantedPrefix)
	if err != nil {
		return err
	}
	got.others = map[int]bool{}
	for name, by := range wanted {
		if by != owner {
			got.wanted = append(got.wanted, numbersOf(download.WantedPrefix, []string{name})...)
		}
	}
	for _, shard := range got.wanted {
		got.others[shard] = true
	}
	unable, err := l.scarceTasks(ctx, workers)
	if err != nil {
		return err
	}
	got.scarce = map[int]bool{}
	for shard := range unable {
		got.scarce[shard] = true
	}
	if len(unable) == 0 && len(seeker.wants) == 0 {
		return nil
	}
	taken, err := store.Holders(ctx, download.ShardPrefix)
	if err != nil {
		return err
	}
	// The shards that we want, those that had no turn yet first.
	var wants, free []int
	room := max(1, share/2) - len(seeker.sought)
	for i := range download.Shards {
		shard := (seeker.after + 1 + i) % download.Shards
		holder := taken[shardName(shard)]
		if holder == owner || got.others[shard] || !unable[shard][holder] && (holder != "" || !got.scarce[shard]) || len(wants) >= room {
			continue
		}
		wants = append(wants, shard)
		if holder == "" {
			free = append(free, shard)
		}
	}
	if len(wants) > 0 {
		held, err := store.Hold(ctx, owner, wantedNames(wants), l.opt.ShardFor)
		if err != nil {
			return err
		}
		wants = numbersOf(download.WantedPrefix, held)
		free = slices.DeleteFunc(free, func(shard int) bool { return !slices.Contains(wants, shard) })
	}
	if len(free) > 0 {
		more, err := store.Hold(ctx, owner, shardNames(free), l.opt.ShardFor)
		if err != nil {
			return err
		}
		got.asked = shardsOf(more)
		got.gained = append(got.gained, got.asked...)
	}
	got.wants = slices.DeleteFunc(wants, func(shard int) bool { return slices.Contains(got.asked, shard) })
	done := slices.DeleteFunc(append(slices.Clone(seeker.wants), wants...), func(shard int) bool { return slices.Contains(got.wants, shard) })
	if len(done) > 0 {
		return store.LetGo(ctx, owner, wantedNames(done))
	}
	return nil
}

// scarceTasks returns the shards with ready tasks that this worker can do, and which of the live
// workers cannot do them. If all workers can do the same, it reads no job.
func (l *loop) scarceTasks(ctx context.Context, workers map[string]string) (map[int]map[string]bool, error) {
	if l.opt.Has == nil {
		return nil, nil
	}
	has, err := l.opt.Store.Holders(ctx, download.HasPrefix)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range workers {
		if other := strings.TrimPrefix(name, download.WorkerPrefix); other != l.opt.Owner {
			names = append(names, other)
		}
	}
	if len(download.Lacking(l.needs(), names, has)) == 0 {
		return nil, nil
	}
	jobs, err := l.opt.Store.ListJobs(ctx)
	if err != nil {
		return nil, err
	}
	scarce := map[int]map[string]bool{}
	can := download.Want{Has: l.opt.Has}
	for _, job := range jobs {
		unable := job.Unable(names, has)
		if !job.On || len(unable) == 0 || !can.Serves(job.Needs()) || !slices.Contains(l.opt.Lanes, job.Setting.Lane) {
			continue
		}
		err := l.opt.Store.ListTasks(ctx, download.Query{Job: job.ID, State: download.Ready}, func(task download.Task) error {
			if scarce[task.Shard] == nil {
				scarce[task.Shard] = map[string]bool{}
			}
			for _, name := range unable {
				scarce[task.Shard][name] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return scarce, nil
}

// yields records what was found, and returns which of our shards others should get.
func (l *loop) yields(got seeking, now time.Time) []int {
	s := &l.shards
	s.wants = got.wants
	if len(s.wants) > 0 {
		s.next = now.Add(l.opt.ShardFor / 10)
	}
	busy := l.busy()
	for shard, until := range s.sought {
		if !until.After(now) || got.scarce != nil && !got.scarce[shard] && !busy[shard] {
			delete(s.sought, shard)
		}
	}
	for _, shard := range got.asked {
		s.sought[shard], s.after = now.Add(soughtTurns*l.opt.ShardFor), shard
	}
	return slices.DeleteFunc(got.wanted, func(shard int) bool {
		_, served := s.serves(shard)
		return !served || !s.sought[shard].IsZero()
	})
}

// needs returns all needs of jobs that this worker meets.
func (l *loop) needs() []string {
	if l.opt.Has == nil {
		return nil // a worker that names none meets all
	}
	needs := slices.Clone(l.opt.Has)
	for _, lane := range l.opt.Lanes {
		needs = append(needs, download.NeedLane(lane))
	}
	return needs
}

// ownNames are the names that say that the worker is alive, and what it has.
func (l *loop) ownNames() []string {
	names := []string{download.WorkerPrefix + l.opt.Owner}
	for _, need := range l.needs() {
		names = append(names, download.HasName(need, l.opt.Owner))
	}
	return names
}

func wantedNames(shards []int) []string { return namesOf(download.WantedPrefix, shards) }
