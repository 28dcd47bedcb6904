package mongodb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest/victim"
)

// The victim is this test's binary.
const (
	victimURI      = "URIFILTER_DOWNLOAD_VICTIM_URI"
	victimDatabase = "URIFILTER_DOWNLOAD_VICTIM_DATABASE"
	victimName     = "URIFILTER_DOWNLOAD_VICTIM_NAME"
	victimTime     = "URIFILTER_DOWNLOAD_VICTIM_TIME"
)

func TestMain(m *testing.M) {
	if uri := os.Getenv(victimURI); uri != "" {
		now, err := time.Parse(time.RFC3339, os.Getenv(victimTime))
		var s *Store
		if err == nil {
			s, err = Open(context.Background(), Options{
				URI: uri, Database: os.Getenv(victimDatabase), Inline: inline, Timeout: patient, Now: func() time.Time { return now },
			})
		}
		if err == nil {
			err = victim.Use(s, os.Getenv(victimName), inline)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestSystemKilledAtAnyMoment kills a process that adds, hands out, leases and settles. The server
// keeps running: killing FerretDB would test its own database.
func TestSystemKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	uri := start(t).URI()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	clock := downloadtest.NewClock()
	o := Options{URI: uri, Database: newDatabase(), Now: clock.Now}
	downloadtest.Kills(t, 3, clock, func() download.Store { return open(t, o) }, func(name string) *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), victimURI+"="+uri, victimDatabase+"="+o.Database, victimName+"="+name,
			victimTime+"="+clock.Now().Format(time.RFC3339)) // a server's clock does not go back, either
		return cmd
	})
	s := open(t, o)
	defer s.Close()
	noOrphans(t, s)
}

// noOrphans sweeps, and checks that each log, data, file and chunk has a mark that its task names.
func noOrphans(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	if _, err := s.Sweep(ctx, 0); err != nil {
		t.Fatal(err)
	}
	tasks, err := find[taskDoc](ctx, s.tasks, bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	ends, results := map[bson.ObjectID]bool{}, map[bson.ObjectID]bool{}
	for _, d := range tasks {
		for _, mark := range d.Ends {
			ends[mark] = true
		}
		if !d.Data.IsZero() {
			results[d.Data] = true
		}
	}
	logs, err := find[logDoc](ctx, s.logs, bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range logs {
		if !ends[l.ID] {
			t.Errorf("a log is left over of %s", l.Task)
		}
		delete(ends, l.ID)
	}
	if len(ends) > 0 {
		t.Errorf("%d attempts have no log", len(ends))
	}
	data, err := find[dataDoc](ctx, s.data, bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, d := range data {
		if !results[d.ID] {
			t.Errorf("data is left over of %s", d.Task)
		}
		delete(results, d.ID)
		named[d.BodyFile], named[d.RecordsFile] = true, true
	}
	if len(results) > 0 {
		t.Errorf("%d tasks are done and have no data", len(results))
	}
	files, err := find[fileDoc](ctx, s.files, bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := find[chunkDoc](ctx, s.chunk, bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 || len(chunks) == 0 {
		t.Error("no large body was stored: nothing was tried")
	}
	for _, f := range files {
		if !named[f.ID] {
			t.Errorf("the file %s is left over", f.ID)
		}
	}
	for _, c := range chunks {
		if !named[c.File] {
			t.Errorf("the chunk %s is left over", c.ID)
		}
	}
}
