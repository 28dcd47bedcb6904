package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// AddJob implements download.Jobs.
func (s *Store) AddJob(ctx context.Context, j download.Job) (download.Job, error) {
	setting, err := json.Marshal(j.Setting)
	if err != nil {
		return download.Job{}, err
	}
	j.Version = 1
	err = s.write(ctx, 2, func(t *tx) error {
		_, found, err := t.findJob(j.Name)
		if err != nil || found {
			return errors.Join(err, ifTrue(found, download.ErrExists))
		}
		j.Added, j.Changed = timeOf(t.now), timeOf(t.now)
		err = t.w.each(func(rows *sql.Rows) error { return rows.Scan(&j.ID) },
			"INSERT INTO jobs (name, priority, is_on, filter, version, lane, needs, max_attempts, added) VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?) RETURNING id",
			j.Name, j.Priority, j.On, j.Filter, string(j.Setting.Lane), needsOf(j), j.Setting.MaxAttempts, t.now)
		t.w.jobs = nil
		if err != nil {
			return err
		}
		return t.addVersion(j, setting)
	})
	if err != nil {
		return download.Job{}, err
	}
	return j, nil
}

// needsOf returns the needs of a job as they are stored.
func needsOf(j download.Job) string { return strings.Join(j.Needs(), " ") }

func ifTrue(b bool, err error) error {
	if b {
		return err
	}
	return nil
}

func (t *tx) addVersion(j download.Job, setting []byte) error {
	return t.w.exec("INSERT INTO versions (job, version, setting, code_language, code_file, code_text, changed) VALUES (?, ?, ?, ?, ?, ?, ?)",
		j.ID, j.Version, string(setting), j.Code.Language, j.Code.File, j.Code.Text, t.now)
}

// ChangeJob implements download.Jobs.
func (s *Store) ChangeJob(ctx context.Context, j download.Job) (download.Job, error) {
	setting, err := json.Marshal(j.Setting)
	if err != nil {
		return download.Job{}, err
	}
	var changed download.Job
	err = s.write(ctx, 2, func(t *tx) error {
		old, found, err := t.findJob(j.Name)
		if err != nil || !found {
			return errors.Join(err, ifTrue(!found, download.ErrNoJob))
		}
		changed = old
		changed.Priority, changed.Filter = j.Priority, j.Filter
		t.w.jobs = nil
		if !old.Setting.Equal(j.Setting) || old.Code != j.Code {
			changed.Version++
			changed.Setting, changed.Code, changed.Changed = j.Setting, j.Code, timeOf(t.now)
			if err := t.addVersion(changed, setting); err != nil {
				return err
			}
		}
		return t.w.exec("UPDATE jobs SET priority = ?, filter = ?, version = ?, lane = ?, needs = ?, max_attempts = ? WHERE id = ?",
			j.Priority, j.Filter, changed.Version, string(changed.Setting.Lane), needsOf(changed), changed.Setting.MaxAttempts, old.ID)
	})
	if err != nil {
		return download.Job{}, err
	}
	return changed, nil
}

// SwitchJob implements download.Jobs.
func (s *Store) SwitchJob(ctx context.Context, name string, on bool) error {
	return s.updateJob(ctx, "UPDATE jobs SET is_on = ? WHERE name = ? AND dropped = 0", on, name)
}

// MarkReported implements download.Jobs.
func (s *Store) MarkReported(ctx context.Context, job int64, tasks int) error {
	return s.updateJob(ctx, "UPDATE jobs SET reported = ? WHERE id = ? AND dropped = 0", tasks, job)
}

// updateJob runs an update of a job that was not dropped: ErrNoJob.
func (s *Store) updateJob(ctx context.Context, query string, args ...any) error {
	return s.write(ctx, 1, func(t *tx) error {
		n, err := t.w.execCount(query, args...)
		t.w.jobs = nil
		return errors.Join(err, ifTrue(err == nil && n == 0, download.ErrNoJob))
	})
}

// DropJob implements download.Jobs. If ctx ends while it removes what belongs to the job, the
// job is gone, and Sweep removes the rest.
func (s *Store) DropJob(ctx context.Context, name string) error {
	if err := s.updateJob(ctx, "UPDATE jobs SET dropped = 1 WHERE name = ? AND dropped = 0", name); err != nil {
		return err
	}
	if err := s.purge(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

const jobColumns = `SELECT j.id, j.name, j.priority, j.is_on, j.filter, j.added, j.reported, v.version, v.setting, v.code_language, v.code_file, v.code_text, v.changed
	FROM jobs j JOIN versions v ON v.job = j.id WHERE j.dropped = 0 AND `

func scanJob(rows *sql.Rows) (download.Job, error) {
	var j download.Job
	var setting []byte
	var added, changed int64
	err := rows.Scan(&j.ID, &j.Name, &j.Priority, &j.On, &j.Filter, &added, &j.Reported, &j.Version, &setting, &j.Code.Language, &j.Code.File, &j.Code.Text, &changed)
	if err != nil {
		return j, err
	}
	j.Added, j.Changed = timeOf(added), timeOf(changed)
	return j, json.Unmarshal(setting, &j.Setting)
}

func (t *tx) findJob(name string) (j download.Job, found bool, err error) {
	err = t.w.each(func(rows *sql.Rows) error {
		found = true
		j, err = scanJob(rows)
		return err
	}, jobColumns+"v.version = j.version AND j.name = ?", name)
	return j, found && err == nil, err
}

func (s *Store) oneJob(ctx context.Context, where string, args ...any) (download.Job, error) {
	jobs, err := collect(ctx, s, scanJob, jobColumns+where, args...)
	if err != nil {
		return download.Job{}, err
	}
	if len(jobs) == 0 {
		return download.Job{}, download.ErrNoJob
	}
	return jobs[0], nil
}

// Job implements download.Jobs.
func (s *Store) Job(ctx context.Context, name string) (download.Job, error) {
	return s.oneJob(ctx, "v.version = j.version AND j.name = ?", name)
}

// JobVersion implements download.Jobs.
func (s *Store) JobVersion(ctx context.Context, id int64, version int) (download.Job, error) {
	return s.oneJob(ctx, "v.version = ? AND j.id = ?", version, id)
}

// ListJobs implements download.Jobs.
func (s *Store) ListJobs(ctx context.Context) ([]download.Job, error) {
	return collect(ctx, s, scanJob, jobColumns+"v.version = j.version ORDER BY j.name")
}

// Counts implements download.Jobs.
func (s *Store) Counts(ctx context.Context, job int64) (map[download.State]int, error) {
	counts := map[download.State]int{}
	found := false
	err := s.each(ctx, func(rows *sql.Rows) error {
		var state, n sql.NullInt64
		found = true
		if err := rows.Scan(&state, &n); err != nil || !state.Valid {
			return err
		}
		counts[states[state.Int64]] = int(n.Int64)
		return nil
	}, "SELECT c.state, c.n FROM jobs j LEFT JOIN counts c ON c.job = j.id WHERE j.id = ? AND j.dropped = 0", job)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, download.ErrNoJob
	}
	for _, state := range states {
		counts[state] += 0 // so that the key exists
	}
	return counts, nil
}

// KeepRefusal implements download.Jobs.
func (s *Store) KeepRefusal(ctx context.Context, r download.Refusal) error {
	return s.write(ctx, 2, func(t *tx) error {
		if err := t.w.exec("INSERT INTO refusals (name, text, added) VALUES (?, ?, ?)", r.Name, download.CutReason(r.Text), t.now); err != nil {
			return err
		}
		return t.w.exec("DELETE FROM refusals WHERE seq <= (SELECT seq FROM refusals ORDER BY seq DESC LIMIT 1 OFFSET ?)", download.MaxRefusals)
	})
}

// Refusals implements download.Jobs.
func (s *Store) Refusals(ctx context.Context, limit int) ([]download.Refusal, error) {
	return collect(ctx, s, func(rows *sql.Rows) (r download.Refusal, err error) {
		var added int64
		err = rows.Scan(&r.Name, &r.Text, &added)
		r.Added = timeOf(added)
		return r, err
	}, "SELECT name, text, added FROM refusals ORDER BY seq DESC LIMIT ?", max(limit, 0))
}

// The states as they are stored.
var states = download.States()

var (
	waiting = slices.Index(states, download.Waiting)
	ready   = slices.Index(states, download.Ready)
	running = slices.Index(states, download.Running)
	done    = slices.Index(states, download.Done)
	failed  = slices.Index(states, download.Failed)
)
