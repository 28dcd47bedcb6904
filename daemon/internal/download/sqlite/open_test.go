package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

func open(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// run executes statements on the database of a closed store.
func run(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		make func(t *testing.T, path string)
		want string
	}{
		{"text", func(t *testing.T, path string) { write(t, path, strings.Repeat("something else\n", 100)) }, "is not a SQLite database"},
		{"empty file", func(t *testing.T, path string) { write(t, path, "") }, "is not a SQLite database"},
		{"short file", func(t *testing.T, path string) { write(t, path, "SQLite format 3\x00") }, "is not a SQLite database"},
		{"another program's", func(t *testing.T, path string) { run(t, path, "CREATE TABLE jobs (id)") }, "is a SQLite database of another program"},
		{"another application id", func(t *testing.T, path string) { run(t, path, "PRAGMA application_id = 7", "CREATE TABLE x (y)") }, "is a SQLite database of another program"},
		{"log without its database", func(t *testing.T, path string) { write(t, path+"-wal", "x") }, "is the log of a database that no longer exists"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, databaseName)
			test.make(t, path)
			before, _ := os.ReadFile(path)
			for range 2 { // the first refusal leaves no lock
				_, err := Open(context.Background(), Options{Dir: dir})
				var foreign *ForeignError
				if !errors.As(err, &foreign) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
					t.Errorf("error %v, want %q", err, test.want)
				}
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusesNewerSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := open(t, Options{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	run(t, filepath.Join(dir, databaseName), "PRAGMA user_version = 99")
	_, err := Open(context.Background(), Options{Dir: dir})
	var newer *NewerError
	if !errors.As(err, &newer) || newer.Have != 99 || newer.Known != len(migrations) {
		t.Errorf("error %v, want that of a newer schema", err)
	}
}

// TestOpenOfFirstSchema: the data of the first version of the schema is still there, with its
// attempts as they were counted then.
func TestOpenOfFirstSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, databaseName)
	if err := create(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	run(t, path, "PRAGMA journal_mode = WAL", migrations[0], "PRAGMA user_version = 1",
		`INSERT INTO jobs (id, name, priority, is_on, filter, version, lane, max_attempts, added) VALUES (1, 'news', 3, 1, '', 1, 'normal', 3, 1)`,
		`INSERT INTO versions VALUES (1, 1, '{}', '', '', '', 1)`, `INSERT INTO counts VALUES (1, 2, 1)`,
		`INSERT INTO tasks (id, job, uri, shard, state, attempts, fence, version, until, added, owner) VALUES (x'00112233445566778899aabbccddeeff', 1, 'http://x/', 7, 2, 2, 2, 1, 5, 1, 'w')`)
	s := open(t, Options{Dir: dir})
	if swept, err := s.Sweep(t.Context(), 0); err != nil || swept != (download.Swept{Abandoned: 1}) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	err := s.ListTasks(t.Context(), download.Query{Job: 1}, func(got download.Task) error {
		if got.State != download.Waiting || got.Attempts != 1 || got.Abandoned != 1 || got.URI != "http://x/" {
			t.Errorf("task %+v", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if counts, err := s.Counts(t.Context(), 1); err != nil || counts[download.Waiting] != 1 {
		t.Errorf("counts %v, %v", counts, err)
	}
}

// TestOpenOfOldSchemas: a database of each version of the schema is brought up to date, and the
// needs of its jobs equal those of a job that is added now.
func TestOpenOfOldSchemas(t *testing.T) {
	t.Parallel()
	python, starlark := download.Code{Language: "python", File: "a.py", Text: "x"}, download.Code{Language: "starlark", File: "a.star", Text: "x"}
	jobs := map[string]download.Job{
		"http":     {Setting: download.Setting{Engine: download.EngineHTTP}},
		"browser":  {Setting: download.Setting{Engine: download.EngineBrowser, Parse: download.Parse{Code: starlark}}},
		"script":   {Setting: download.Setting{Engine: download.EngineScript}, Code: starlark},
		"python":   {Setting: download.Setting{Engine: download.EngineScript}, Code: python},
		"generate": {Setting: download.Setting{Engine: download.EngineHTTP, Generate: download.Generate{Code: python}}},
	}
	for version := 1; version < len(migrations); version++ {
		dir := t.TempDir()
		path := filepath.Join(dir, databaseName)
		if err := create(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		db, err := sqlitefile.Connect(path, 1, "journal_mode(WAL)")
		if err != nil {
			t.Fatal(err)
		}
		exec := func(query string, args ...any) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range migrations[:version] {
			exec(m)
		}
		exec(fmt.Sprintf("PRAGMA user_version = %d", version))
		id := 0
		for name, j := range jobs {
			id++
			setting, err := json.Marshal(j.Setting)
			if err != nil {
				t.Fatal(err)
			}
			exec("INSERT INTO jobs (id, name, priority, is_on, filter, version, lane, max_attempts, added) VALUES (?, ?, 3, 1, '', 2, 'normal', 3, 1)", id, name)
			exec("INSERT INTO versions VALUES (?, 1, '{\"Engine\": \"old\"}', '', '', '', 1), (?, 2, ?, ?, ?, ?, 1)", id, id, setting, j.Code.Language, j.Code.File, j.Code.Text)
			if version >= 4 {
				exec("UPDATE jobs SET needs = ? WHERE id = ?", needsOf(j), id)
			}
			exec("INSERT INTO counts VALUES (?, 1, 1)", id)
			exec("INSERT INTO tasks (id, job, uri, shard, state, until, added) VALUES (randomblob(16), ?, ?, 7, 1, 9e15, 1)", id, name)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := open(t, Options{Dir: dir})
		for name, j := range jobs {
			for lacks := range len(j.Needs()) + 1 { // the last lacks nothing
				has := append([]string{}, j.Needs()...)
				if lacks < len(has) {
					has = slices.Delete(has, lacks, lacks+1)
				}
				want := 0
				for _, other := range jobs {
					if (download.Want{Has: has}).Serves(other.Needs()) {
						want++
					}
				}
				leases, err := s.Lease(t.Context(), download.Want{Owner: "w", Max: 100, For: time.Hour, Shards: []int{7}, Lanes: download.Lanes(), Has: has})
				if err != nil || len(leases) != want {
					t.Errorf("schema %d, %s: who has %q gets %d tasks, %v; want %d", version, name, has, len(leases), err, want)
				}
				for _, l := range leases {
					if err := s.GiveBack(t.Context(), l, time.Time{}); err != nil {
						t.Fatal(err)
					}
				}
				for id := range len(jobs) {
					if _, err := s.HandOut(t.Context(), int64(id+1), 10, 0, time.Hour); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

func TestOneProcessHasTheFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Dir: dir})
	_, err := Open(context.Background(), Options{Dir: dir})
	var used *disk.InUseError
	if !errors.As(err, &used) {
		t.Errorf("error %v, want that the folder is in use", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, Options{Dir: dir})
}

// TestOpenAfterInterruptedStart: a start that was killed leaves parts of a database under another
// name.
func TestOpenAfterInterruptedStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, databaseName)
	write(t, path+".tmp", "half a database")
	write(t, path+".tmp-journal", "half a journal")
	s := open(t, Options{Dir: dir})
	if _, err := s.AddJob(context.Background(), download.Job{Name: "news"}); err != nil {
		t.Error(err)
	}
	// Killed between the rename and the schema.
	other := t.TempDir()
	path = filepath.Join(other, databaseName)
	if err := create(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, Options{Dir: other}).AddJob(context.Background(), download.Job{Name: "news"}); err != nil {
		t.Error(err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddJob(context.Background(), download.Job{Name: "news"}); !errors.Is(err, errClosed) {
		t.Errorf("add: %v", err)
	}
	if _, err := s.ListJobs(context.Background()); err == nil {
		t.Error("a closed store lists jobs")
	}
}

// TestDurability: the open connections have the settings on which the promise rests.
func TestDurability(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		var got string
		if err := s.writer.conn.QueryRowContext(context.Background(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v, want %s", pragma, got, err, want)
		}
	}
}

// TestGroupCommit: changes that wait for the writer share one transaction.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	ctx := context.Background()
	held, begun := make(chan struct{}), make(chan struct{})
	answers := make(chan error, 101)
	go func() {
		answers <- s.write(ctx, 1, func(*tx) error { close(begun); <-held; return nil })
	}()
	<-begun // the writer is busy with another transaction
	seen := map[*tx]int{}
	for range 100 { // as write would send them
		s.changes <- &change{ctx, 1, func(t *tx) error { seen[t]++; return nil }, answers}
	}
	close(held)
	for range 101 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if len(seen) != 1 {
		t.Errorf("100 changes had %d transactions, want 1", len(seen))
	}
}

// TestOneFailureOfMany: a failing change does not affect the others in its transaction.
func TestOneFailureOfMany(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Dir: t.TempDir()})
	bad := errors.New("bad")
	var together []*change
	for i := range 5 {
		together = append(together, &change{context.Background(), 1, func(t *tx) error {
			if err := t.w.exec("INSERT INTO roles (name, owner, until) VALUES (?, '', 0)", i); err != nil {
				return err
			}
			if i == 3 {
				return bad
			}
			return nil
		}, make(chan error, 1)})
	}
	if err := s.Close(); err != nil { // so that the test can be the writer
		t.Fatal(err)
	}
	w, err := newWriter(context.Background(), s, filepath.Join(s.opt.Dir, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.commit(together)
	for i, c := range together {
		if err := <-c.done; (i == 3) != errors.Is(err, bad) || i != 3 && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	var n int
	if err := w.each(func(rows *sql.Rows) error { return rows.Scan(&n) }, "SELECT count(*) FROM roles"); err != nil || n != 4 {
		t.Errorf("%d rows, %v, want 4", n, err)
	}
}
