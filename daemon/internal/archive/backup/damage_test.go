package backup

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

// database returns the database behind the archive.
func (r *rig) database() *mongo.Database {
	r.t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(r.uri))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client.Database(r.name)
}

// countErrors counts the entries of the filter uri in the archive's error log.
func (r *rig) countErrors() int64 {
	r.t.Helper()
	n, err := r.database().Collection("uri_filter_error_log").CountDocuments(r.t.Context(), bson.M{"filtertype_id": 1})
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// damage deletes bits of a version.
func (r *rig) damage(version string) {
	r.t.Helper()
	var doc struct {
		Stripes []struct {
			File string `bson:"file"`
		} `bson:"stripes"`
	}
	db := r.database()
	if err := db.Collection("filter_bit_map").FindOne(r.t.Context(), bson.M{"_id": version}).Decode(&doc); err != nil {
		r.t.Fatal(err)
	}
	done, err := db.Collection("bitmap.chunks").DeleteMany(r.t.Context(), bson.M{"files_id": doc.Stripes[0].File})
	if err != nil || done.DeletedCount == 0 {
		r.t.Fatalf("%+v, %v", done, err)
	}
}

// A fresh server neither serves a damaged version nor starts empty; the restore of an
// older version on request ends the wait.
func TestOlderVersionInThePlaceOfADamagedOne(t *testing.T) {
	r := newRig(t)
	r.add(1)
	if _, err := r.Writeback(t.Context(), "uri", nil); err != nil {
		t.Fatal(err)
	}
	r.add(2)
	if _, err := r.Writeback(t.Context(), "uri", nil); err != nil {
		t.Fatal(err)
	}
	r.damage("uri-2")

	log := slog.New(slog.DiscardHandler)
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "always", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	e, err := engine.Open(t.Context(), store, engine.Settings{Archive: r.link, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	other := &rig{Copier: New(e, r.link, prometheus.NewRegistry(), log), t: t}
	defer other.Stop()
	var damaged *archive.DamageError
	if err := e.Reconcile(t.Context()); !errors.As(err, &damaged) {
		t.Fatalf("got %v, want a damaged version", err)
	}
	if err := e.Ready(t.Context()); err == nil {
		t.Error("ready without the filter")
	}
	if _, err := other.Restore(t.Context(), "uri", "", nil); !errors.As(err, &damaged) {
		t.Errorf("got %v, want a damaged version", err)
	}
	// One that cannot even be read is not in the way of an older one.
	if _, err := r.database().Collection("filter_bit_map").UpdateOne(t.Context(), bson.M{"_id": "uri-2"}, bson.M{"$set": bson.M{"header": []byte("URIBLOOM")}}); err != nil {
		t.Fatal(err)
	}
	if done, err := other.Restore(t.Context(), "1", "uri-1", nil); err != nil || done.Items != 1 {
		t.Fatalf("got %+v, %v", done, err)
	}
	if err := e.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if other.add(1) != 0 || other.add(2) != 1 {
		t.Error("it is not the older version")
	}
}
