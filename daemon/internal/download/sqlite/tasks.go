package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// The queries that run for every task. explain_test.go checks that each uses the index made for
// it.
const (
	insertTask = "INSERT OR IGNORE INTO tasks (id, job, uri, shard, queue, not_before, added) VALUES (?, ?, ?, ?, ?, ?, ?)"

	// Without the index name SQLite reads all ready tasks by another index, and sorts them.
	lease = `UPDATE OR ROLLBACK tasks SET state = 2, until = ?, owner = ?, not_before = 0, attempts = attempts + 1, fence = fence + 1,
		version = (SELECT version FROM jobs WHERE jobs.id = tasks.job) WHERE seq IN (
		SELECT seq FROM tasks INDEXED BY tasks_ready WHERE state = 1 AND +until > ?
		AND +job IN (SELECT value FROM json_each(?)) AND +shard IN (SELECT value FROM json_each(?))
		AND +queue NOT IN (SELECT value FROM json_each(?)) ORDER BY rank, not_before, seq LIMIT ?) RETURNING ` + taskColumns + `, rank, version`

	renew = `UPDATE OR ROLLBACK tasks SET until = ? WHERE id = ? AND +job = ? AND fence = ? AND +state = 2 AND owner = ? AND +until > ?`

	giveBack = `UPDATE OR ROLLBACK tasks SET state = 0, until = 0, owner = '', not_before = ?, attempts = attempts - 1
		WHERE id = ? AND +job = ? AND fence = ? AND +state = 2 AND +until > ? RETURNING queue`
)

const taskColumns = "seq, id, job, uri, shard, state, attempts, not_before, until, owner, fence, reason, added, abandoned, queue"

// row is a task with data that only the store knows.
type row struct {
	download.Task
	seq     int64
	rank    int64
	version int
	queue   int
}

func scanTask(rows *sql.Rows, more ...any) (row, error) {
	var r row
	var id sql.RawBytes
	var state int
	var notBefore, until, added int64
	into := []any{&r.seq, &id, &r.Job, &r.URI, &r.Shard, &state, &r.Attempts, &notBefore, &until, &r.Owner, &r.Fence, &r.Reason, &added, &r.Abandoned, &r.queue}
	if err := rows.Scan(append(into, more...)...); err != nil {
		return r, err
	}
	r.ID, r.State = hex.EncodeToString(id), states[state]
	r.NotBefore, r.Until, r.Added = timeOf(notBefore), timeOf(until), timeOf(added)
	return r, nil
}

// collect runs a statement that returns tasks with rank and version, in no particular order.
func (t *tx) collect(query string, args ...any) ([]row, error) {
	var all []row
	err := t.w.each(func(rows *sql.Rows) error {
		var rank int64
		var version int
		r, err := scanTask(rows, &rank, &version)
		r.rank, r.version = rank, version
		all = append(all, r)
		return err
	}, query, args...)
	return all, err
}

// idBytes is the id of a task as it is stored; nil if it is no id.
func idBytes(id string) []byte {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}

// addTogether is how many tasks AddTasks stores in one change.
const addTogether = 1000

// AddTasks implements download.Tasks.
func (s *Store) AddTasks(ctx context.Context, job int64, tasks []download.NewTask) (int, error) {
	return download.InParts(tasks, addTogether, func(some []download.NewTask) (fresh int, err error) {
		ids, queues := make([][]byte, len(some)), make([]int, len(some))
		for i, task := range some {
			ids[i], queues[i] = idBytes(download.TaskID(job, task.URI)), download.QueueOf(task.URI)
		}
		err = s.write(ctx, 1+len(some), func(t *tx) error {
			if _, err := t.live(job); err != nil {
				return err
			}
			fresh = 0
			for i, task := range some {
				n, err := t.w.execCount(insertTask, ids[i], job, task.URI, task.Shard, queues[i], t.now, t.now)
				if err != nil {
					return err
				}
				fresh += n
			}
			t.counts[countKey{job, waiting}] += fresh
			return nil
		})
		return fresh, err
	})
}

// inOrder is the order in which tasks are handed out and leased. Within one statement, seq follows
// the order in which the tasks began to wait.
func inOrder(a, b row) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), a.NotBefore.Compare(b.NotBefore), cmp.Compare(a.seq, b.seq))
}

// Lease implements download.Tasks.
func (s *Store) Lease(ctx context.Context, want download.Want) ([]download.Lease, error) {
	if want.Max <= 0 || len(want.Shards) == 0 || len(want.Lanes) == 0 {
		return nil, ctx.Err()
	}
	shards, err := json.Marshal(want.Shards)
	if err != nil {
		return nil, err
	}
	enough, err := json.Marshal(append([]int{}, want.Enough...)) // a list even if it is nil
	if err != nil {
		return nil, err
	}
	var rows []row
	err = s.write(ctx, want.Max, func(t *tx) error {
		rows = nil
		jobs, err := t.jobs()
		if err != nil {
			return err
		}
		served := []int64{}
		for id, j := range jobs {
			if j.on && want.Serves(j.needs) && slices.Contains(want.Lanes, j.lane) {
				served = append(served, id)
			}
		}
		slices.Sort(served)
		from, err := json.Marshal(served)
		if err != nil {
			return err
		}
		rows, err = t.collect(lease, t.now+want.For.Milliseconds(), want.Owner, t.now, string(from), string(shards), string(enough), want.Max)
		for _, r := range rows {
			t.countMoved(r.Job, r.queue, ready, running, 1)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, inOrder)
	leases := make([]download.Lease, len(rows))
	for i, r := range rows {
		leases[i] = download.Lease{Task: r.Task, Version: r.version}
	}
	return leases, nil
}

// Renew implements download.Tasks.
func (s *Store) Renew(ctx context.Context, owner string, leases []download.Lease, ttl time.Duration) ([]string, error) {
	var lost []string
	for some := range slices.Chunk(leases, addTogether) {
		var missed []string
		err := s.write(ctx, len(some), func(t *tx) error {
			missed = nil
			jobs, err := t.jobs()
			if err != nil {
				return err
			}
			for _, l := range some {
				n := 0
				if _, live := jobs[l.Task.Job]; live {
					if n, err = t.w.execCount(renew, t.now+ttl.Milliseconds(), idBytes(l.Task.ID), l.Task.Job, l.Task.Fence, owner, t.now); err != nil {
						return err
					}
				}
				if n == 0 {
					missed = append(missed, l.Task.ID)
				}
			}
			return nil
		})
		if err != nil {
			return lost, err
		}
		lost = append(lost, missed...)
	}
	return lost, nil
}

// GiveBack implements download.Tasks.
func (s *Store) GiveBack(ctx context.Context, l download.Lease, notBefore time.Time) error {
	return s.write(ctx, 1, func(t *tx) error {
		if err := t.holds(l); err != nil {
			return err
		}
		queue := -1
		err := t.w.each(func(rows *sql.Rows) error { return rows.Scan(&queue) },
			giveBack, cmp.Or(millis(notBefore), t.now), idBytes(l.Task.ID), l.Task.Job, l.Task.Fence, t.now)
		if err == nil && queue < 0 {
			err = download.ErrLeaseLost
		}
		if err != nil {
			return err
		}
		t.countMoved(l.Task.Job, queue, running, waiting, 1)
		return nil
	})
}

// holds refuses the lease of a task whose job no longer exists.
func (t *tx) holds(l download.Lease) error {
	if _, err := t.live(l.Task.Job); errors.Is(err, download.ErrNoJob) {
		return download.ErrLeaseLost
	} else if err != nil {
		return err
	}
	return nil
}
