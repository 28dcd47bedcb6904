package mongodb

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/verify"
)

// TestDamagedBodies: a byte that was changed in the database is never answered, and is found.
func TestDamagedBodies(t *testing.T) {
	t.Parallel()
	s := open(t, Options{URI: start(t).URI(), Database: newDatabase()})
	defer s.Close()
	ctx := t.Context()
	if err := s.Ready(ctx); err != nil {
		t.Fatalf("empty: %v", err)
	}
	j, err := s.AddJob(ctx, newJob("j"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddTasks(ctx, j.ID, newTasks(3)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.HandOut(ctx, j.ID, 3, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Lease(ctx, wish("w", 3))
	if err != nil || len(leases) != 3 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	texts := []string{"sound", "small", strings.Repeat("large", inline)}
	for i, lease := range leases {
		if err := s.Finish(ctx, lease, download.Result{Status: 200, Body: strings.NewReader(texts[i])}, download.Attempt{Status: 200}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.data.UpdateOne(ctx, doc("task", leases[1].Task.ID), doc("$set", doc("body", []byte("smell")))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.chunk.UpdateOne(ctx, doc(), doc("$set", doc("data", []byte(strings.Repeat("marge", inline))))); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(ctx); err != nil {
		t.Error(err)
	}
	for i, lease := range leases {
		body, err := s.Body(ctx, lease.Task.ID)
		if err == nil {
			_, err = io.ReadAll(body)
			err = errors.Join(err, body.Close())
		}
		if damaged := errors.As(err, new(*download.DamagedError)); damaged != (i > 0) {
			t.Errorf("body %d: %v", i, err)
		}
	}
	c, err := verify.Bodies(ctx, s, func(verify.Damage) {}, func(verify.Counts) {})
	if err != nil || c.Bodies != 3 || c.Damaged != 2 {
		t.Errorf("%+v, %v", c, err)
	}
}
