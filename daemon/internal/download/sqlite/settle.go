package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

const (
	settleDone = `UPDATE OR ROLLBACK tasks SET state = 3, until = 0, owner = '', reason = ''
		WHERE id = ? AND +job = ? AND fence = ? AND +state = 2 AND +until > ? RETURNING seq, attempts, version, queue`
	settleFailed = `UPDATE OR ROLLBACK tasks SET state = ?, until = 0, owner = '', reason = ?, not_before = ?
		WHERE id = ? AND +job = ? AND fence = ? AND +state = 2 AND +until > ? RETURNING seq, attempts, version, queue`
	insertLog = `INSERT INTO logs (job, task, number, version, status, spent, added, host_name, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// Finish implements download.Tasks. A large body is durable in its file before the task is done.
func (s *Store) Finish(ctx context.Context, l download.Lease, r download.Result, a download.Attempt) (err error) {
	header, err := json.Marshal(r.Header)
	if err != nil {
		return err
	}
	body, err := s.bodies.readBody(ctx, l.Task, r.Body, s.opt.Inline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.bodies.settle(body, err)) }()
	return s.write(ctx, 4, func(t *tx) error {
		seq, queue, number, version, err := t.settle(l, settleDone, idBytes(l.Task.ID), l.Task.Job, l.Task.Fence, t.now)
		if err != nil {
			return err
		}
		err = t.w.exec(`INSERT INTO data (task, job, version, uri, status, header, content_type, encoding, size, sha256, host_name, added, records)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, seq, l.Task.Job, version, r.URI, r.Status, string(header),
			r.ContentType, r.Encoding, body.size, body.sha256, a.HostName, t.now, r.Records)
		if err != nil {
			return err
		}
		if body.size > 0 {
			if err := t.w.exec("INSERT INTO bodies (task, file, body) VALUES (?, ?, ?)", seq, body.file, body.inline); err != nil {
				return err
			}
		}
		t.countMoved(l.Task.Job, queue, running, done, 1)
		return t.addLog(l.Task.Job, seq, number, version, a)
	})
}

// Fail implements download.Tasks.
func (s *Store) Fail(ctx context.Context, l download.Lease, a download.Attempt, retry time.Time) error {
	to := waiting
	if retry.IsZero() {
		to = failed
	}
	return s.write(ctx, 2, func(t *tx) error {
		seq, queue, number, version, err := t.settle(l, settleFailed, to, download.CutReason(a.Reason), millis(retry),
			idBytes(l.Task.ID), l.Task.Job, l.Task.Fence, t.now)
		if err != nil {
			return err
		}
		t.countMoved(l.Task.Job, queue, running, to, 1)
		return t.addLog(l.Task.Job, seq, number, version, a)
	})
}

// settle runs a statement that ends a lease, and returns data of its task.
func (t *tx) settle(l download.Lease, query string, args ...any) (seq int64, queue, number, version int, err error) {
	if err := t.holds(l); err != nil {
		return 0, 0, 0, 0, err
	}
	err = t.w.each(func(rows *sql.Rows) error { return rows.Scan(&seq, &number, &version, &queue) }, query, args...)
	if err == nil && seq == 0 {
		err = download.ErrLeaseLost
	}
	return seq, queue, number, version, err
}

func (t *tx) addLog(job, seq int64, number, version int, a download.Attempt) error {
	return t.w.exec(insertLog, job, seq, number, version, a.Status, a.Spent.Microseconds(), t.now, a.HostName, download.CutReason(a.Reason))
}

// sweepTogether is how many tasks Sweep updates, or rows it removes, in one change.
const sweepTogether = 1000

const (
	sweepReady   = `UPDATE OR ROLLBACK tasks SET state = 0, until = 0 WHERE seq IN (SELECT seq FROM tasks INDEXED BY tasks_ready WHERE state = 1 AND +until <= ? LIMIT ?) RETURNING job, queue`
	sweepRunning = `SELECT seq, id, job, queue, abandoned + 1, version, owner FROM tasks WHERE state = 2 AND until <= ? LIMIT ?`
	abandonTask  = `UPDATE OR ROLLBACK tasks SET state = ?, until = 0, owner = '', reason = ?, not_before = ?, attempts = attempts - 1, abandoned = ? WHERE seq = ?`
	sweepLogs    = `DELETE FROM logs WHERE seq IN (SELECT seq FROM logs WHERE job = ? AND added < ? LIMIT ?)`
)

// Sweep implements download.Tasks.
func (s *Store) Sweep(ctx context.Context, keepLogs time.Duration) (download.Swept, error) {
	var swept download.Swept
	if err := s.purge(ctx); err != nil {
		return swept, err
	}
	err := s.inParts(ctx, func(t *tx) (int, error) {
		n := 0
		err := t.w.each(func(rows *sql.Rows) error {
			var job int64
			var queue int
			err := rows.Scan(&job, &queue)
			t.countMoved(job, queue, ready, waiting, 1)
			n++
			return err
		}, sweepReady, t.now, sweepTogether)
		return n, err
	}, &swept.Unclaimed)
	if err != nil {
		return swept, err
	}
	if err := s.sweepRunning(ctx, &swept); err != nil {
		return swept, err
	}
	if err := s.write(ctx, 1, func(t *tx) error { return t.w.exec("DELETE FROM roles WHERE until <= ?", t.now) }); err != nil {
		return swept, err
	}
	if keepLogs > 0 {
		if err := s.sweepLogs(ctx, keepLogs, &swept); err != nil {
			return swept, err
		}
	}
	return swept, s.bodies.sweep(ctx, s.useOf)
}

// inParts repeats a change until it has done less than one change may do, and adds up what it
// has done.
func (s *Store) inParts(ctx context.Context, do func(*tx) (int, error), sum *int) error {
	for {
		var n int
		err := s.write(ctx, sweepTogether, func(t *tx) (err error) {
			n, err = do(t)
			return err
		})
		if err != nil {
			return err
		}
		if *sum += n; n < sweepTogether {
			return nil
		}
	}
}

func (s *Store) sweepRunning(ctx context.Context, swept *download.Swept) error {
	type expired struct {
		seq, job          int64
		id                []byte
		queue, n, version int
		owner             string
	}
	for {
		var some []expired
		var gone int
		err := s.write(ctx, sweepTogether, func(t *tx) error {
			some, gone = nil, 0
			err := t.w.each(func(rows *sql.Rows) error {
				var e expired
				err := rows.Scan(&e.seq, &e.id, &e.job, &e.queue, &e.n, &e.version, &e.owner)
				some = append(some, e)
				return err
			}, sweepRunning, t.now, sweepTogether)
			if err != nil {
				return err
			}
			for _, e := range some {
				to, notBefore := waiting, t.now+download.PauseAbandoned(hex.EncodeToString(e.id), e.n).Milliseconds()
				if e.n >= download.MaxAbandoned {
					to, notBefore = failed, 0
					gone++
				}
				a := download.Attempt{Reason: download.Abandoned(e.owner, e.n)}
				if err := t.w.exec(abandonTask, to, download.CutReason(a.Reason), notBefore, e.n, e.seq); err != nil {
					return err
				}
				if err := t.addLog(e.job, e.seq, 0, e.version, a); err != nil {
					return err
				}
				t.countMoved(e.job, e.queue, running, to, 1)
			}
			return nil
		})
		if err != nil {
			return err
		}
		swept.Abandoned += len(some)
		swept.Failed += gone
		if len(some) < sweepTogether {
			return nil
		}
	}
}

func (s *Store) sweepLogs(ctx context.Context, keep time.Duration, swept *download.Swept) error {
	jobs, err := s.ListJobs(ctx)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		err := s.inParts(ctx, func(t *tx) (int, error) {
			return t.w.execCount(sweepLogs, j.ID, t.now-keep.Milliseconds(), sweepTogether)
		}, &swept.Logs)
		if err != nil {
			return err
		}
	}
	return nil
}

// purge removes what belongs to dropped jobs, and then the jobs.
func (s *Store) purge(ctx context.Context) error {
	for {
		var more bool
		var files []string
		err := s.write(ctx, sweepTogether, func(t *tx) error {
			var job int64
			more, files = false, nil
			if err := t.w.each(func(rows *sql.Rows) error { more = true; return rows.Scan(&job) }, "SELECT id FROM jobs WHERE dropped = 1 LIMIT 1"); err != nil || !more {
				return err
			}
			err := t.w.each(func(rows *sql.Rows) error {
				var file string
				err := rows.Scan(&file)
				if file != "" {
					files = append(files, file)
				}
				return err
			}, "DELETE FROM bodies WHERE task IN (SELECT task FROM data WHERE job = ? LIMIT ?) RETURNING file", job, sweepTogether)
			if err != nil {
				return err
			}
			removed := 0
			for _, query := range []string{
				"DELETE FROM data WHERE task IN (SELECT task FROM data WHERE job = ? LIMIT ?)", // the same rows
				"DELETE FROM logs WHERE seq IN (SELECT seq FROM logs WHERE job = ? LIMIT ?)",
				"DELETE FROM tasks WHERE seq IN (SELECT seq FROM tasks WHERE job = ? LIMIT ?)",
			} {
				n, err := t.w.execCount(query, job, sweepTogether)
				if err != nil {
					return err
				}
				removed += n
			}
			if removed > 0 {
				return nil
			}
			return cmp.Or(
				t.w.exec("DELETE FROM versions WHERE job = ?", job),
				t.w.exec("DELETE FROM counts WHERE job = ?", job),
				t.w.exec("DELETE FROM jobs WHERE id = ?", job),
			)
		})
		if err != nil {
			return err
		}
		if err := s.bodies.remove(files...); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}

const retryTask = `UPDATE OR ROLLBACK tasks SET state = 0, not_before = ?, attempts = 0, abandoned = 0 WHERE id = ? AND +job = ? AND +state = 4 RETURNING queue`

// Retry implements download.Tasks.
func (s *Store) Retry(ctx context.Context, job int64, ids []string) (int, error) {
	return download.InParts(ids, addTogether, func(some []string) (n int, err error) {
		err = s.write(ctx, 1+len(some), func(t *tx) error {
			n = 0
			if _, err := t.live(job); err != nil {
				return err
			}
			for _, id := range some {
				err := t.w.each(func(rows *sql.Rows) error {
					var queue int
					err := rows.Scan(&queue)
					t.countMoved(job, queue, failed, waiting, 1)
					n++
					return err
				}, retryTask, t.now, idBytes(id), job)
				if err != nil {
					return err
				}
			}
			if n == 0 {
				return nil
			}
			return t.w.exec("UPDATE jobs SET reported = 0 WHERE id = ?", job)
		})
		return n, err
	})
}
