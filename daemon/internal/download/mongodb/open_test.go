package mongodb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cr-clawer/urifilter/daemon/internal/archive/mongoconn"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// refused expects that the store cannot be opened, with an error that names the next step and no
// password.
func refused(t *testing.T, o Options, want error, texts ...string) {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = patient
	}
	s, err := Open(context.Background(), o)
	for !errors.Is(err, want) && errors.Is(err, mongoconn.ErrUnreachable) && o.Timeout < patient {
		o.Timeout *= 2 // on a busy machine a server may take longer to answer
		s, err = Open(context.Background(), o)
	}
	if err == nil {
		_ = s.Close()
		t.Fatalf("opened %s", o.URI)
	}
	if want != nil && !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
	for _, text := range append(texts, "store") {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v: does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "tops3cret") {
		t.Errorf("tells the password: %v", err)
	}
}

// away is how long calls wait for a missing server: it costs the test that time.
const away = time.Second

func TestServerIsAway(t *testing.T) {
	t.Parallel()
	nobody := testserver.Free(t)
	refused(t, Options{URI: "mongodb://u:tops3cret@" + nobody + "/", Timeout: away}, mongoconn.ErrUnreachable, nobody, "hint: see the address in mongodb.uri")
	refused(t, Options{URI: "mongodb://u:tops3cret/%zz@h/"}, nil)
}

// If the server of a store has gone away, the error of a call says that it may come back.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	turns := start(t)
	s := open(t, Options{URI: turns.URI()})
	defer s.Close()
	s.opt.Timeout = away
	turns.Lose(func(string) bool { return true })
	_, err := s.ListJobs(t.Context())
	if !errors.Is(err, download.ErrUnavailable) || !errors.Is(err, mongoconn.ErrUnreachable) || !strings.HasPrefix(err.Error(), "store 127.0.0.1:") {
		t.Errorf("%v", err)
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := mongotest.New(t, mongotest.Options{User: "downloader", Password: "tops3cret"})
	refused(t, Options{URI: strings.Replace(server.URI(), "tops3cret", "wrong", 1)}, mongoconn.ErrCredentials, "hint: see user, password and authSource")
	s := open(t, Options{URI: server.URI()})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestNotAPrimaryOfTheSet(t *testing.T) {
	t.Parallel()
	server := mongotest.New(t, mongotest.Options{ReplicaSet: "rs0"})
	refused(t, Options{URI: strings.Replace(server.URI(), "rs0", "rs1", 1), Timeout: away}, mongoconn.ErrNoPrimary, "hint: name all members of the replica set")
	s := open(t, Options{URI: server.URI()})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// An unforeseen refusal by the server is reported with the server's name.
func TestUnforeseenRefusal(t *testing.T) {
	t.Parallel()
	s := open(t, Options{URI: start(t).URI(), Database: newDatabase()})
	defer s.Close()
	err := s.retry(context.Background(), func(ctx context.Context, _ bool) error {
		return s.jobs.Database().RunCommand(ctx, bson.D{{Key: "thereIsNone", Value: 1}}).Err()
	})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:") || !strings.Contains(err.Error(), "thereIsNone") {
		t.Errorf("%v, want the server and what it refused", err)
	}
}

// TestForeignDatabase: data of another program, or of a newer release, is left alone.
func TestForeignDatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	uri := start(t).URI()
	for name, c := range map[string]struct {
		collection string
		doc        bson.D
		text       string
	}{
		"collection": {tasksName, doc("_id", "x"), "collection DownloadTask that another program has written"},
		"program":    {metaName, doc("_id", metaFormat, "program", "other", "format", 1), `is of the program "other"`},
		"newer":      {metaName, doc("_id", metaFormat, "program", program, "format", 2), "format 2: this program knows up to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := mongoconn.Connect(mongoconn.Options{URI: uri, Database: newDatabase(), Timeout: patient})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			db := conn.Database(false)
			if _, err := db.Collection(c.collection).InsertOne(ctx, c.doc); err != nil {
				t.Fatal(err)
			}
			refused(t, Options{URI: uri, Database: db.Name()}, nil, "database "+db.Name(), c.text, "hint: ")
			if names, err := db.ListCollectionNames(ctx, bson.D{}); err != nil || len(names) != 1 {
				t.Errorf("collections %v, %v: want the one that was there", names, err)
			}
		})
	}
}

// TestServerComesBack: calls are retried while the server is away.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := mongotest.New(t, mongotest.Options{})
	s := open(t, Options{URI: server.URI()})
	defer s.Close()
	j, err := s.AddJob(ctx, newJob("news"))
	if err != nil {
		t.Fatal(err)
	}
	server.Kill()
	added := make(chan error, 1)
	go func() {
		_, err := s.AddTasks(ctx, j.ID, newTasks(3))
		added <- err
	}()
	server.Restart()
	if err := <-added; err != nil {
		t.Errorf("a call while the server was away: %v", err)
	}
	if counts, err := s.Counts(ctx, j.ID); err != nil || counts[download.Waiting] != 3 {
		t.Errorf("%v, %v", counts, err)
	}
}

// TestServerClock: times are those of the server, within the time that it takes to ask it.
func TestServerClock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, Options{URI: start(t).URI(), Database: newDatabase(), KeepLogs: time.Hour})
	defer s.Close()
	for range 3 {
		before := time.Now().Truncate(time.Millisecond)
		s.clock.known = false
		now, err := s.clock.now(ctx)
		after := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		// The server has the clock of this machine.
		if now.least.After(after) || now.most.Before(before) {
			t.Errorf("the server's time is %v to %v, asked from %v to %v", now.least, now.most, before, after)
		}
	}
}

// TestCommandsOfATask checks what docs/downloadstores.md says about the calls of the server.
func TestCommandsOfATask(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	turns := start(t)
	s := open(t, Options{URI: turns.URI(), Database: newDatabase()})
	defer s.Close()
	j, err := s.AddJob(ctx, newJob("news"))
	if err != nil {
		t.Fatal(err)
	}
	var leases []download.Lease
	for _, c := range []struct {
		what string
		want int
		do   func() error
	}{
		{"add 100", 2, func() error { _, err := s.AddTasks(ctx, j.ID, newTasks(100)); return err }},
		{"hand 100 out", 6, func() error { _, err := s.HandOut(ctx, j.ID, 100, 0, time.Hour); return err }},
		{"lease 10", 4, func() (err error) { leases, err = s.Lease(ctx, wish("w", 10)); return err }},
		{"renew 10", 2, func() error { _, err := s.Renew(ctx, "w", leases, time.Hour); return err }},
		{"finish", 3, func() error {
			return s.Finish(ctx, leases[0], download.Result{Body: strings.NewReader("x")}, download.Attempt{})
		}},
		{"fail", 2, func() error { return s.Fail(ctx, leases[1], download.Attempt{}, time.Time{}) }},
		{"give back", 1, func() error { return s.GiveBack(ctx, leases[2], time.Time{}) }},
	} {
		turns.Commands()
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		n := 0
		for command, times := range turns.Commands() {
			if command != "hello" && command != "isMaster" && command != "ismaster" && command != "" {
				n += times
			}
		}
		if n != c.want {
			t.Errorf("%s: %d commands, want %d", c.what, n, c.want)
		}
	}
}

// TestTasksOfOlderReleases: tasks without a queue are handed out, also beside others.
func TestTasksOfOlderReleases(t *testing.T) {
	t.Parallel()
	s := open(t, Options{URI: start(t).URI(), Database: newDatabase()})
	t.Cleanup(func() { _ = s.Close() })
	j, err := s.AddJob(t.Context(), download.Job{Name: "news", On: true, Setting: download.Setting{Lane: download.Normal}})
	if err != nil {
		t.Fatal(err)
	}
	add := func(host string) {
		t.Helper()
		var tasks []download.NewTask
		for i := range 5 {
			tasks = append(tasks, download.NewTask{URI: fmt.Sprintf("http://%s/%d", host, i)})
		}
		if n, err := s.AddTasks(t.Context(), j.ID, tasks); err != nil || n != 5 {
			t.Fatal(n, err)
		}
	}
	add("old.example")
	if _, err := s.tasks.UpdateMany(t.Context(), bson.D{}, doc("$unset", doc("queue", ""))); err != nil {
		t.Fatal(err)
	}
	add("new.example")
	if got, err := s.HandOut(t.Context(), j.ID, 4, 0, time.Hour); err != nil || len(got) != 4 {
		t.Errorf("handed out %d, %v, want 4", len(got), err)
	}
	if got, err := s.HandOut(t.Context(), j.ID, 10, 0, time.Hour); err != nil || len(got) != 6 {
		t.Errorf("handed out %d, %v, want the other 6", len(got), err)
	}
}
