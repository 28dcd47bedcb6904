package mongodb

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/downloadtest"
	"github.com/cr-clawer/urifilter/daemon/internal/mongotest"
)

// inline keeps the large bodies of tests small.
const inline = 4096

// start starts FerretDB, of which each command is atomic; see mongotest.Turns.
func start(t testing.TB) *mongotest.Turns {
	t.Helper()
	return mongotest.NewTurns(t, mongotest.New(t, mongotest.Options{}).Addr())
}

// newDatabase is the name of a database that nobody has.
func newDatabase() string { return "downloader_test_" + bson.NewObjectID().Hex() }

// patient is a time limit for servers beside other work.
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

func TestConformance(t *testing.T)       { conformance(t, 60, 20) }
func TestSystemConformance(t *testing.T) { conformance(t, 1000, 10) }

func conformance(t *testing.T, steps, part int) {
	uri := start(t).URI()
	downloadtest.Run(t, downloadtest.Options{Steps: steps, Part: part, LargeBody: inline, New: func(t *testing.T, clock *downloadtest.Clock) func() download.Store {
		o := Options{URI: uri, Database: strings.ToLower(newDatabase()), Now: clock.Now}
		return func() download.Store { return open(t, o) }
	}})
}
