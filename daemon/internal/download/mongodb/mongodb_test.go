package mongodb

import (
	"context"
	"os"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
)

// inline keeps the large bodies of tests small.
const inline = 4096

// start starts FerretDB in which each command is atomic; see mongotest.Turns.
func start(t testing.TB) *mongotest.Turns {
	t.Helper()
	return mongotest.NewTurns(t, mongotest.Shared(t).Addr())
}

// newDatabase returns an unused database name.
func newDatabase() string { return "downloader_test_" + bson.NewObjectID().Hex() }

// patient is a time limit for servers that share the machine with other work.
const patient = 2 * time.Minute

func open(t testing.TB, o Options) *Store {
	t.Helper()
	o.Inline, o.Timeout = inline, patient
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConformance runs the suite on FerretDB, and on a server that the environment names.
func TestConformance(t *testing.T) {
	t.Parallel()
	servers := map[string]string{"ferretdb": start(t).URI()}
	if uri := os.Getenv(mongotest.EnvURI); uri != "" {
		servers["given"] = uri
	}
	for name, uri := range servers {
		t.Run(name, func(t *testing.T) {
			downloadtest.Run(t, downloadtest.Options{Steps: 60, Part: 20, LargeBody: inline, New: func(t *testing.T, clock *downloadtest.Clock) func() download.Store {
				o := Options{URI: uri, Database: newDatabase(), Now: clock.Now}
				if name == "given" {
					t.Cleanup(func() { dropDatabase(t, o) }) // the server stays
				}
				return func() download.Store { return open(t, o) }
			}})
		})
	}
}

func dropDatabase(t *testing.T, o Options) {
	s := open(t, o)
	if err := s.jobs.Database().Drop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
