package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

const (
	// nextQueues finds queues of a job with waiting tasks, from one queue on, and whether the first of the
	// tasks is due. It goes from one queue to the next by the index, however many tasks they have.
	nextQueues = `WITH RECURSIVE next(queue) AS (
			SELECT min(queue) FROM tasks INDEXED BY tasks_waiting WHERE job = ?1 AND state = 0 AND queue >= ?2
			UNION ALL
			SELECT (SELECT min(queue) FROM tasks INDEXED BY tasks_waiting WHERE job = ?1 AND state = 0 AND queue > next.queue) FROM next WHERE next.queue IS NOT NULL
			LIMIT ?3)
		SELECT queue, (SELECT min(not_before) FROM tasks INDEXED BY tasks_waiting WHERE job = ?1 AND state = 0 AND queue = next.queue) <= ?4
		FROM next WHERE queue IS NOT NULL`

	// handOut hands out up to ?5 tasks of each of some queues, the longest waiting first. ?1 is a list of
	// pairs: a queue, and the rank of its first task.
	handOut = `UPDATE OR ROLLBACK tasks SET state = 1, until = ?2, rank = first.rank FROM (
			SELECT w.seq AS seq, q.value->>1 - 1 + row_number() OVER (PARTITION BY w.queue ORDER BY w.not_before, w.seq) AS rank
			FROM json_each(?1) AS q CROSS JOIN tasks AS w WHERE w.seq IN (
				SELECT seq FROM tasks INDEXED BY tasks_waiting WHERE job = ?3 AND state = 0 AND queue = q.value->>0 AND not_before <= ?4
				ORDER BY not_before, seq LIMIT ?5)) AS first
		WHERE tasks.seq = first.seq RETURNING ` + taskColumns + `, tasks.rank, version`

	countReady   = `SELECT job, queue, count(*) FROM tasks INDEXED BY tasks_ready WHERE state = 1 GROUP BY job, queue`
	countRunning = `SELECT job, queue, count(*) FROM tasks INDEXED BY tasks_running WHERE state = 2 GROUP BY job, queue`
)

// Bounds of how many queues one call looks at: those that are due, besides two for each task, and all.
const (
	enoughQueues = 64
	maxQueues    = 4096
)

// turns is what hand-outs remember of queues. It belongs to the writer.
type turns struct {
	// out counts the tasks that are ready or running, by queue; nil: they must be counted.
	out map[outKey]int
	// next is the queue with which the next hand-out of a job begins.
	next map[int64]int
}

type outKey struct {
	job   int64
	queue int
}

// isOut reports whether a task in a state is handed out.
func isOut(state int) bool { return state == ready || state == running }

// add adds differences.
func (u *turns) add(differences map[outKey]int) {
	if u.out == nil {
		return
	}
	for key, n := range differences {
		if u.out[key] += n; u.out[key] == 0 {
			delete(u.out, key)
		}
	}
}

// countOut counts what is ready and running, unless that is known.
func (t *tx) countOut() error {
	if t.w.turns.out != nil {
		return nil
	}
	out := map[outKey]int{}
	for _, query := range []string{countReady, countRunning} {
		err := t.w.each(func(rows *sql.Rows) error {
			var key outKey
			var n int
			err := rows.Scan(&key.job, &key.queue, &n)
			out[key] += n
			return err
		}, query)
		if err != nil {
			return err
		}
	}
	t.w.turns.out = out
	clear(t.out) // this transaction has counted its own changes
	return nil
}

// HandOut implements download.Tasks.
func (s *Store) HandOut(ctx context.Context, job int64, n int, rank int64, ttl time.Duration) ([]download.Task, error) {
	var rows []row
	err := s.write(ctx, max(n, 1), func(t *tx) error {
		rows = nil
		j, err := t.live(job)
		if err != nil || !j.on || n <= 0 {
			return err
		}
		if err := t.countOut(); err != nil {
			return err
		}
		rows, err = t.handOut(job, n, rank, ttl)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, inOrder)
	tasks := make([]download.Task, len(rows))
	for i, r := range rows {
		tasks[i] = r.Task
	}
	return tasks, nil
}

// handOut hands tasks out, of the queues that have the fewest tasks handed out.
func (t *tx) handOut(job int64, n int, rank int64, ttl time.Duration) ([]row, error) {
	queues, err := t.dueQueues(job, 2*n+enoughQueues)
	if err != nil {
		return nil, err
	}
	var all []row
	given := make(map[int]int, len(queues))
	for n > len(all) && len(queues) > 0 {
		out := make([]int, len(queues))
		for i, queue := range queues {
			out[i] = t.w.turns.out[outKey{job, queue}] + t.out[outKey{job, queue}]
		}
		alike := map[int][][2]int64{} // queues that get as many, with the rank of the first task of each
		places := download.Level(out, n-len(all))
		for i, queue := range queues {
			if places[i] > 0 {
				alike[places[i]] = append(alike[places[i]], [2]int64{int64(queue), rank + int64(given[queue])})
			}
		}
		empty := map[int]bool{}
		for most, some := range alike {
			from, err := json.Marshal(some)
			if err != nil {
				return nil, err
			}
			rows, err := t.collect(handOut, string(from), t.now+ttl.Milliseconds(), job, t.now, most)
			if err != nil {
				return nil, err
			}
			got := map[int]int{}
			for _, r := range rows {
				got[r.queue]++
			}
			for _, pair := range some {
				queue := int(pair[0])
				given[queue] += got[queue]
				empty[queue] = got[queue] < most
				t.countMoved(job, queue, waiting, ready, got[queue])
			}
			all = append(all, rows...)
		}
		for _, queue := range queues {
			if given[queue] > 0 {
				t.w.turns.next[job] = queue + 1
			}
		}
		queues = slices.DeleteFunc(queues, func(queue int) bool { return empty[queue] })
	}
	return all, nil
}

// dueQueues returns queues of a job with waiting tasks that are due, about as many as wanted, from the one whose turn it is.
func (t *tx) dueQueues(job int64, want int) ([]int, error) {
	var due []int
	first := t.w.turns.next[job]
	looked := 0
	last := first
	for _, from := range []int{first, 0} { // and then from the beginning
		err := t.w.each(func(rows *sql.Rows) error {
			var queue int
			var isDue bool
			if err := rows.Scan(&queue, &isDue); err != nil {
				return err
			}
			if looked++; from < first && queue >= first || len(due) >= want {
				return errEnough
			}
			if last = queue; isDue {
				due = append(due, queue)
			}
			return nil
		}, nextQueues, job, from, maxQueues-looked, t.now)
		if err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
		if first == 0 || errors.Is(err, errEnough) || looked >= maxQueues {
			break
		}
	}
	if len(due) == 0 {
		t.w.turns.next[job] = last + 1
	}
	return due, nil
}

// errEnough ends a query early.
var errEnough = errors.New("enough")
