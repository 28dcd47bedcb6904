package mysql

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// A change of one daemon is committed, but the server has not yet written its log, when another daemon
// asks for the same items: it gets no answer before the log is written. So a kill of the server takes
// back nothing that was answered.
func TestAnswersWaitForWhatTheyHaveRead(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skipf("%v; on Debian: apt-get install strace", err)
	}
	server := mysqltest.Start(t)
	ctx, id := context.Background(), engine.NewReservation()
	add := func(s *Set, keys []bloom.Hash) error {
		_, err := s.Add(ctx, keys, make([]bool, len(keys)))
		return err
	}
	forget := func(s *Set, keys []bloom.Hash) error {
		_, err := s.Forget(ctx, keys)
		return err
	}
	has := func(s *Set, keys []bloom.Hash) error { return s.Has(ctx, keys, make([]bool, len(keys))) }
	reserveAs := func(s *Set, id engine.Reservation, keys []bloom.Hash) error {
		_, err := s.Reserve(ctx, id, keys, time.Hour, make([]bool, len(keys)))
		return err
	}
	reserve := func(s *Set, keys []bloom.Hash) error { return reserveAs(s, id, keys) }
	commit := func(s *Set, keys []bloom.Hash) error {
		_, err := s.Commit(ctx, id, keys, 0, make([]bool, len(keys)))
		return err
	}
	nothing := func(*Set, []bloom.Hash) error { return nil }
	for name, by := range map[string]struct {
		before, first, then func(*Set, []bloom.Hash) error
		keys                int64 // in a statement
	}{
		"added":                     {nothing, add, add, pieceKeys},
		"added in pieces":           {nothing, add, add, 7},
		"added, looked at":          {nothing, add, has, pieceKeys},
		"added, to be reserved":     {nothing, add, reserve, pieceKeys},
		"forgotten":                 {add, forget, forget, pieceKeys},
		"forgotten in pieces":       {add, forget, forget, 7},
		"reserved":                  {nothing, reserve, func(s *Set, keys []bloom.Hash) error { return reserveAs(s, engine.NewReservation(), keys) }, pieceKeys},
		"reserved, asked again":     {nothing, reserve, reserve, pieceKeys},
		"reserved, then added":      {nothing, reserve, add, pieceKeys},
		"committed":                 {reserve, commit, commit, pieceKeys},
		"reserved, to be forgotten": {reserve, forget, forget, pieceKeys},
		"committed, looked at":      {reserve, commit, has, pieceKeys},
		"committed, asked in two":   {reserve, commit, commit, 7},
	} {
		t.Run(name, func(t *testing.T) {
			id = engine.NewReservation()
			c := config(server)
			one, a := opened(t, c)
			other := c
			other.User = mysqltest.Admin // whose statements are told apart
			two, b := opened(t, other)
			small(one, by.keys)
			small(two, by.keys)
			storetest.Add(t, b, storetest.Keys(a, 100, 10)) // the log of the table's creation is written
			keys := storetest.Keys(a, 0, 40)
			if err := by.before(a, keys); err != nil {
				t.Fatal(err)
			}
			written, kill := holdLog(t, server)
			first, then := make(chan error, 1), make(chan error, 1)
			go func() { first <- by.first(a, keys) }()
			testserver.Await(t, "the server writes its log", written)
			go func() { then <- by.then(b, keys) }()
			db := server.Open("")
			defer db.Close()
			testserver.Await(t, "the second call is answered, or waits", func() bool {
				var waits int
				err := db.QueryRowContext(ctx, "select count(*) from information_schema.processlist where user = ? and db = ? and info is not null and time_ms > 500",
					other.User, other.Database).Scan(&waits)
				if err != nil {
					t.Fatal(err)
				}
				return len(then) > 0 || waits > 0
			})
			if len(then) > 0 {
				err := <-then
				if err == nil {
					t.Error("answered before what it has read was on the disk")
				}
				then <- err
			}
			kill()
			server.Run()
			for _, answer := range []chan error{first, then} {
				if err := <-answer; err != nil && !errors.Is(err, engine.ErrInDoubt) && !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrNoReservation) {
					t.Error(err)
				}
			}
		})
	}
}

// holdLog has the server stop where it writes its redo log. The functions tell whether it has come
// there, and kill it there.
func holdLog(t *testing.T, server *mysqltest.Server) (written func() bool, kill func()) {
	t.Helper()
	dir := filepath.Dir(server.Socket())
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	trace, said := filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "said")
	log, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	strace := exec.Command("strace", "-f", "-o", trace, "-p", strings.TrimSpace(string(pid)), "-P", filepath.Join(dir, "data", "ib_logfile0"),
		"-e", "trace=pwrite64", "-e", "inject=pwrite64:delay_enter=600000000")
	strace.Stderr = log
	if err := strace.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = strace.Process.Kill()
		_ = strace.Wait()
	})
	t.Cleanup(end)
	has := func(file, text string) bool {
		b, _ := os.ReadFile(file)
		return strings.Contains(string(b), text)
	}
	testserver.Await(t, "strace watches the server", func() bool {
		if has(said, "not permitted") {
			t.Skip("this user may not trace processes: run it as root, or with kernel.yama.ptrace_scope = 0")
		}
		return has(said, "attached")
	})
	return func() bool { return has(trace, "pwrite64(") }, func() {
		server.Signal(os.Kill) // first: what is held back must not be written
		end()
		server.Kill()
	}
}
