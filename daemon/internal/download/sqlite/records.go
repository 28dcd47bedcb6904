package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// page is how many records are read at once, so that a slow reader does not hold a
// snapshot of the database, whose log would grow meanwhile.
const page = 500

// isLive is a condition on the number of a job.
const isLive = " AND EXISTS (SELECT 1 FROM jobs WHERE id = ? AND dropped = 0) "

const (
	listTasks = "SELECT " + taskColumns + " FROM tasks NOT INDEXED WHERE job = ?" + isLive + "AND seq > ? ORDER BY seq LIMIT ?"
	listTask  = "SELECT " + taskColumns + " FROM tasks WHERE +job = ?" + isLive + "AND +seq > ? AND id = ? LIMIT ?"

	// For waiting and done: tasks in other states are few, else this takes a second for each million of them.
	listTasksState = "SELECT " + taskColumns + " FROM tasks INDEXED BY tasks_job WHERE job = ?" + isLive + "AND seq > ? AND +state = ? ORDER BY seq LIMIT ?"
	listReady      = "SELECT " + taskColumns + " FROM tasks INDEXED BY tasks_ready WHERE +job = ?" + isLive + "AND +seq > ? AND state = 1 ORDER BY seq LIMIT ?"
	listRunning    = "SELECT " + taskColumns + " FROM tasks INDEXED BY tasks_running WHERE +job = ?" + isLive + "AND +seq > ? AND state = 2 ORDER BY seq LIMIT ?"
	listFailed     = "SELECT " + taskColumns + " FROM tasks INDEXED BY tasks_failed WHERE job = ?" + isLive + "AND seq > ? AND state = 4 ORDER BY seq LIMIT ?"

	dataColumns = `SELECT t.seq, d.job, t.id, d.version, t.uri, d.uri, d.status, d.header, d.content_type, d.encoding, d.size, d.sha256, d.host_name, d.added, d.records
		FROM data d JOIN tasks t ON t.seq = d.task `
	listData    = dataColumns + "WHERE d.job = ?" + isLive + "AND d.task > ? ORDER BY d.task LIMIT ?"
	listDataOne = dataColumns + "WHERE +d.job = ?" + isLive + "AND +d.task > ? AND t.id = ? LIMIT ?"

	logColumns = `SELECT l.seq, l.added, l.job, t.id, t.uri, l.number, l.version, l.status, l.reason, l.host_name, l.spent FROM logs l JOIN tasks t ON t.seq = l.task `
	listLogs   = logColumns + "WHERE l.job = ?" + isLive + "AND (l.added, l.seq) > (?, ?) ORDER BY l.added, l.seq LIMIT ?"
	newestLogs = logColumns + "WHERE l.job = ?" + isLive + "ORDER BY l.added DESC, l.seq DESC LIMIT ?"
	listLogOne = logColumns + "WHERE +l.job = ?" + isLive + "AND (+l.added, l.seq) > (?, ?) AND t.id = ? ORDER BY l.added, l.seq LIMIT ?"
)

// listOf are the queries of states that have an index.
var listOf = map[download.State]string{download.Ready: listReady, download.Running: listRunning, download.Failed: listFailed}

// list reads one page: the query's last argument is most.
func list[T any](ctx context.Context, s *Store, limit int, scan func(*sql.Rows) (T, error), text string, args ...any) (all []T, more bool, err error) {
	all, err = collect(ctx, s, scan, text, append(args, limit)...)
	return all, len(all) == limit, err
}

// ListTasks implements download.Records, ordered by the time when the tasks were added.
func (s *Store) ListTasks(ctx context.Context, q download.Query, each func(download.Task) error) error {
	var after int64
	return download.InPages(q.Limit, page, func(limit int) ([]row, bool, error) {
		scan := func(rows *sql.Rows) (row, error) { return scanTask(rows) }
		var some []row
		var more bool
		var err error
		switch {
		case q.Task != "":
			some, _, err = list(ctx, s, limit, scan, listTask, q.Job, q.Job, after, idBytes(q.Task))
			some = slices.DeleteFunc(some, func(r row) bool { return q.State != "" && r.State != q.State })
		case listOf[q.State] != "":
			some, more, err = list(ctx, s, limit, scan, listOf[q.State], q.Job, q.Job, after)
		case q.State != "":
			some, more, err = list(ctx, s, limit, scan, listTasksState, q.Job, q.Job, after, slices.Index(states, q.State))
		default:
			some, more, err = list(ctx, s, limit, scan, listTasks, q.Job, q.Job, after)
		}
		if len(some) > 0 {
			after = some[len(some)-1].seq
		}
		return some, more, err
	}, func(r row) error { return each(r.Task) })
}

// ListData implements download.Records, ordered by the time when the tasks were added.
func (s *Store) ListData(ctx context.Context, q download.Query, each func(download.Data) error) error {
	var after int64
	return download.InPages(q.Limit, page, func(limit int) ([]download.Data, bool, error) {
		scan := func(rows *sql.Rows) (d download.Data, err error) {
			var id, sum, header []byte
			var added int64
			err = rows.Scan(&after, &d.Job, &id, &d.Version, &d.TaskURI, &d.URI, &d.Status, &header, &d.ContentType, &d.Encoding, &d.Size, &sum, &d.HostName, &added, &d.Records)
			if err != nil {
				return d, err
			}
			d.Task, d.SHA256, d.Added = hex.EncodeToString(id), hex.EncodeToString(sum), timeOf(added)
			return d, json.Unmarshal(header, &d.Header)
		}
		if q.Task != "" {
			return list(ctx, s, limit, scan, listDataOne, q.Job, q.Job, after, idBytes(q.Task))
		}
		return list(ctx, s, limit, scan, listData, q.Job, q.Job, after)
	}, each)
}

// ListLogs implements download.Records, ordered by time.
func (s *Store) ListLogs(ctx context.Context, q download.Query, each func(download.Log) error) error {
	seq, added := int64(0), int64(math.MinInt64)
	if !q.Since.IsZero() {
		seq, added = math.MaxInt64, millis(q.Since)-1
	}
	scan := func(rows *sql.Rows) (l download.Log, err error) {
		var id []byte
		var spent int64
		err = rows.Scan(&seq, &added, &l.Job, &id, &l.TaskURI, &l.Number, &l.Version, &l.Status, &l.Reason, &l.HostName, &spent)
		l.Task, l.Added, l.Spent = hex.EncodeToString(id), timeOf(added), time.Duration(spent)*time.Microsecond
		return l, err
	}
	return download.InPages(q.Limit, page, func(limit int) ([]download.Log, bool, error) {
		if q.Newest {
			some, _, err := list(ctx, s, limit, scan, newestLogs, q.Job, q.Job)
			return some, false, err
		}
		if q.Task != "" {
			return list(ctx, s, limit, scan, listLogOne, q.Job, q.Job, added, seq, idBytes(q.Task))
		}
		return list(ctx, s, limit, scan, listLogs, q.Job, q.Job, added, seq)
	}, each)
}

const findBody = `SELECT d.size, d.sha256, coalesce(b.file, ''), b.body FROM tasks t JOIN jobs j ON j.id = t.job AND j.dropped = 0
	JOIN data d ON d.task = t.seq LEFT JOIN bodies b ON b.task = t.seq WHERE t.id = ?`

// Body implements download.Records.
func (s *Store) Body(ctx context.Context, task string) (io.ReadCloser, error) {
	var size int64
	var file string
	var sum, inline []byte
	err := s.read.QueryRowContext(ctx, findBody, idBytes(task)).Scan(&size, &sum, &file, &inline)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, download.ErrNoData
	}
	if err != nil {
		return nil, s.noticed(err)
	}
	var body io.ReadCloser = io.NopCloser(bytes.NewReader(inline))
	if file != "" {
		f, err := os.Open(s.bodies.path(file))
		if errors.Is(err, os.ErrNotExist) {
			if named, _, nameErr := s.useOf(ctx, file); nameErr == nil && !named { // the job has been dropped since
				return nil, download.ErrNoData
			}
			return nil, &download.DamagedError{What: "body of task " + task, Fault: "its file " + s.bodies.path(file) + " is missing"}
		}
		if err != nil {
			return nil, err
		}
		body = f
	}
	return download.Checked(task, size, hex.EncodeToString(sum), body), nil
}
