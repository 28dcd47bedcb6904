package mongotest

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func connect(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	return connectFor(t, uri, time.Minute)
}

// connectFor returns a client that looks for its server for that long. A driver does not learn
// that there will be none: a test that wants no answer waits until the end.
func connectFor(t *testing.T, uri string, long time.Duration) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(long))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Disconnect(ctx) // the server may be gone, and would be looked for
	})
	return client
}

func TestDataOutliveKill(t *testing.T) {
	s := New(t, Options{})
	ctx := context.Background()
	if _, err := connect(t, s.URI()).Database("d").Collection("c").InsertOne(ctx, bson.M{"_id": 7}); err != nil {
		t.Fatal(err)
	}
	before := s.Addr()
	s.Restart()
	if s.Addr() != before {
		t.Errorf("address %s after the restart, %s before", s.Addr(), before)
	}
	n, err := connect(t, s.URI()).Database("d").Collection("c").CountDocuments(ctx, bson.M{"_id": 7})
	if n != 1 || err != nil {
		t.Errorf("%d documents after the restart, %v; want 1", n, err)
	}
	s.Kill()
	if err := connectFor(t, s.URI(), time.Second).Ping(ctx, nil); err == nil {
		t.Error("a killed server answers")
	}
}

func TestPasswordIsAsked(t *testing.T) {
	s := New(t, Options{User: "archivist", Password: "p@ss:/word"})
	ctx := context.Background()
	one := func(uri string) error {
		return connect(t, uri).Database("d").Collection("c").FindOne(ctx, bson.M{}).Err()
	}
	if err := one(s.URI()); err != mongo.ErrNoDocuments {
		t.Errorf("with the password: %v", err)
	}
	if err := one(strings.Replace(s.URI(), "word", "wrong", 1)); err == nil || err == mongo.ErrNoDocuments {
		t.Errorf("with a wrong password: %v, want an error", err)
	}
}

func TestReplicaSetName(t *testing.T) {
	s := New(t, Options{ReplicaSet: "rs0"})
	if err := connect(t, s.URI()).Ping(context.Background(), nil); err != nil {
		t.Error(err)
	}
	other := strings.Replace(s.URI(), "rs0", "rs1", 1)
	if err := connectFor(t, other, 3*time.Second).Ping(context.Background(), nil); err == nil {
		t.Error("a client of another set is answered")
	}
}

// TestBuildOnce has several callers build at once, as packages under test do.
func TestBuildOnce(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := os.Stat(build(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
