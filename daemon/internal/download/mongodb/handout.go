package mongodb

import (
	"context"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// turns remembers with which queue the next hand-out of each job begins.
type turns struct {
	mu   sync.Mutex
	next map[int64]int
}

// noQueue is the queue of tasks that an older release has added.
const noQueue = -1

// Bounds of one hand-out.
const (
	enoughQueues = 64  // that are looked at, besides two for each task
	readTogether = 100 // queues whose tasks one query reads: the server merges about as many ranges of its index
)

// line is a queue of a job in a hand-out.
type line struct {
	queue int
	out   int       // tasks that are ready or running
	docs  []taskDoc // the first that are due, in order
	whole bool      // there are no more
	given int       // of docs
}

// HandOut implements download.Tasks.
func (s *Store) HandOut(ctx context.Context, job int64, n int, rank int64, ttl time.Duration) ([]download.Task, error) {
	var docs []taskDoc
	given := map[int]int{}
	err := s.retry(ctx, func(ctx context.Context, _ bool) error {
		d, err := s.live(ctx, job)
		if err != nil || !d.On {
			return err
		}
		for n > len(docs) { // until others are not faster
			chosen, err := s.inTurn(ctx, job, n-len(docs))
			if err != nil || len(chosen) == 0 {
				return err
			}
			nth := make(map[string]int, len(chosen))
			for _, d := range chosen {
				nth[d.ID] = given[d.queue()]
				given[d.queue()]++
			}
			// Places with as many binary digits get one rank: a few updates are enough for all of them.
			for some := range slices.Chunk(chosen, together) {
				mine, err := s.change(ctx, some, func(now moment) bson.D {
					return doc("job", job, "state", string(download.Waiting), "not_before", doc("$lte", now.least))
				}, func(d taskDoc) int { return bits.Len(uint(nth[d.ID])) }, func(now moment, digits int) bson.D {
					return doc("$set", doc("state", string(download.Ready), "rank", rank+int64(digits), "until", now.until(ttl)))
				})
				slices.SortFunc(mine, func(a, b taskDoc) int { return nth[a.ID] - nth[b.ID] })
				docs = append(docs, mine...)
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	tasks := make([]download.Task, len(docs))
	for i, d := range docs {
		tasks[i] = d.task()
	}
	return tasks, nil
}

// queue returns the queue of a task.
func (d taskDoc) queue() int {
	if d.Queue == nil {
		return noQueue
	}
	return *d.Queue
}

// inTurn chooses up to n tasks of a job that can be handed out, from the queues that have the fewest tasks out.
func (s *Store) inTurn(ctx context.Context, job int64, n int) ([]taskDoc, error) {
	now, err := s.clock.now(ctx)
	if err != nil {
		return nil, err
	}
	lines, err := s.lines(ctx, job)
	if err != nil {
		return nil, err
	}
	var chosen []taskDoc
	last := noQueue
	for n > len(chosen) && len(lines) > 0 {
		some := lines[:min(len(lines), 2*n+enoughQueues)]
		lines = lines[len(some):]
		for n > len(chosen) && len(some) > 0 {
			out := make([]int, len(some))
			for i, l := range some {
				out[i] = l.out + l.given
			}
			places := download.Level(out, n-len(chosen))
			if err := s.read(ctx, job, now, some, places); err != nil {
				return nil, err
			}
			for i, l := range some {
				if n := min(places[i], len(l.docs)-l.given); n > 0 {
					chosen = append(chosen, l.docs[l.given:l.given+n]...)
					l.given, last = l.given+n, l.queue
				}
			}
			some = slices.DeleteFunc(some, func(l *line) bool { return l.whole && l.given == len(l.docs) })
		}
	}
	s.turns.mu.Lock()
	s.turns.next[job] = last + 1
	s.turns.mu.Unlock()
	return chosen, nil
}

// lines returns the queues of a job that have waiting tasks, from the one whose turn it is.
func (s *Store) lines(ctx context.Context, job int64) ([]*line, error) {
	// MongoDB goes from queue to queue in the index, as for a distinct; FerretDB refuses the time limit that
	// the driver adds to one.
	queued, err := s.byQueue(ctx, doc("job", job, "state", string(download.Waiting)), doc("_id", "$queue"))
	if err != nil {
		return nil, err
	}
	out, err := s.byQueue(ctx, doc("job", job, "state", doc("$in", bson.A{string(download.Ready), string(download.Running)})),
		doc("_id", "$queue", "n", doc("$sum", 1)))
	if err != nil {
		return nil, err
	}
	queues := slices.Sorted(maps.Keys(queued))
	s.turns.mu.Lock()
	first, _ := slices.BinarySearch(queues, s.turns.next[job])
	s.turns.mu.Unlock()
	var lines []*line
	for _, queue := range slices.Concat(queues[first:], queues[:first]) {
		lines = append(lines, &line{queue: queue, out: out[queue]})
	}
	return lines, nil
}

// byQueue groups tasks by their queues.
func (s *Store) byQueue(ctx context.Context, which, group bson.D) (map[int]int, error) {
	cursor, err := s.tasks.Aggregate(ctx, bson.A{doc("$match", which), doc("$group", group)})
	if err != nil {
		return nil, err
	}
	var groups []struct {
		Queue *int `bson:"_id"`
		N     int  `bson:"n"`
	}
	if err := cursor.All(ctx, &groups); err != nil {
		return nil, err
	}
	n := make(map[int]int, len(groups))
	for _, g := range groups {
		n[taskDoc{Queue: g.Queue}.queue()] = g.N
	}
	return n, nil
}

// read reads tasks of lines until each has those for its places, or has no more that are due.
func (s *Store) read(ctx context.Context, job int64, now moment, lines []*line, places []int) error {
	short := func() (some []*line, n int) {
		for i, l := range lines {
			if missing := l.given + places[i] - len(l.docs); missing > 0 && !l.whole {
				some = append(some, l)
				n += missing
			}
		}
		return some, n
	}
	query := func(some []*line, limit int) error {
		byQueue := map[int]*line{}
		var queues []any
		for _, l := range some {
			byQueue[l.queue] = l
			l.docs = nil // they are read once more, with those behind them
			if l.queue == noQueue {
				queues = append(queues, nil)
			} else {
				queues = append(queues, l.queue)
			}
		}
		which := doc("job", job, "state", string(download.Waiting), "queue", doc("$in", queues), "not_before", doc("$lte", now.least))
		if len(queues) == 1 {
			which[2].Value = queues[0]
		}
		docs, err := find[taskDoc](ctx, s.tasks, which, options.Find().SetSort(doc("not_before", 1, "_id", 1)).SetLimit(int64(limit)).
			SetProjection(doc("_id", 1, "job", 1, "queue", 1)))
		if err != nil {
			return err
		}
		for _, d := range docs {
			l := byQueue[d.queue()]
			l.docs = append(l.docs, d)
		}
		for _, l := range some {
			l.whole = len(docs) < limit
		}
		return nil
	}
	// First many queues at once, in the hope that their tasks are mixed, then those that lack some.
	if some, n := short(); len(some) > 1 {
		for part := range slices.Chunk(some, readTogether) {
			fresh := slices.DeleteFunc(slices.Clone(part), func(l *line) bool { return l.given > 0 })
			if len(fresh) == 0 {
				continue
			}
			if err := query(fresh, 2*n+len(fresh)); err != nil {
				return err
			}
		}
	}
	some, _ := short()
	for _, l := range some {
		at := slices.Index(lines, l)
		if err := query([]*line{l}, 2*(l.given+places[at])); err != nil {
			return err
		}
	}
	return nil
}
