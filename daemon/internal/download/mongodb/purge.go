package mongodb

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// forget is how long a dropped job is remembered, so that writes that were on their way when it
// was dropped are removed, too.
const forget = time.Hour

// purgeAll removes what belongs to dropped jobs, and then the jobs.
func (s *Store) purgeAll(ctx context.Context, now moment) error {
	var dropped []jobDoc
	err := s.retry(ctx, func(ctx context.Context, _ bool) (err error) {
		dropped, err = find[jobDoc](ctx, s.jobs, doc("dropped", true))
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range dropped {
		if err := s.purge(ctx, d); err != nil {
			return err
		}
		err := s.retry(ctx, func(ctx context.Context, _ bool) (err error) {
			switch {
			case d.Purged.IsZero():
				_, err = s.jobs.UpdateOne(ctx, doc("_id", d.ID), doc("$set", doc("purged", now.least)))
			case d.Purged.Before(now.least.Add(-forget)):
				_, err = s.jobs.DeleteOne(ctx, doc("_id", d.ID))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// purge removes what belongs to a dropped job, in parts.
func (s *Store) purge(ctx context.Context, d jobDoc) error {
	parts := []func(context.Context) (int, error){
		func(ctx context.Context) (int, error) { // chunks that have no file yet, too
			logs, err := find[logDoc](ctx, s.logs, doc("job", d.ID), options.Find().SetLimit(together).SetProjection(doc("_id", 1)))
			if err != nil || len(logs) == 0 {
				return 0, err
			}
			marks := make([]bson.ObjectID, len(logs))
			for i, l := range logs {
				marks[i] = l.ID
			}
			return len(logs), s.removeMarks(ctx, marks)
		},
		func(ctx context.Context) (int, error) { // files whose log has expired
			files, err := find[fileDoc](ctx, s.files, doc("metadata.job", d.ID), options.Find().SetLimit(together).SetProjection(doc("_id", 1)))
			if err != nil || len(files) == 0 {
				return 0, err
			}
			ids := make([]string, len(files))
			for i, f := range files {
				ids[i] = f.ID
			}
			return len(files), s.removeFiles(ctx, ids)
		},
		func(ctx context.Context) (int, error) { return removeSome[bson.ObjectID](ctx, s.data, d.ID) },
		func(ctx context.Context) (int, error) { return removeSome[string](ctx, s.tasks, d.ID) },
		func(ctx context.Context) (int, error) { return removeSome[bson.ObjectID](ctx, s.settings, d.ID) },
	}
	for _, part := range parts {
		for more := true; more; {
			err := s.retry(ctx, func(ctx context.Context, _ bool) error {
				n, err := part(ctx)
				more = n == together
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// removeSome removes documents of a job, and returns how many it has found.
func removeSome[ID any](ctx context.Context, c *mongo.Collection, job int64) (int, error) {
	found, err := find[struct {
		ID ID `bson:"_id"`
	}](ctx, c, doc("job", job), options.Find().SetLimit(together).SetProjection(doc("_id", 1)))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	ids := make([]ID, len(found))
	for i, d := range found {
		ids[i] = d.ID
	}
	_, err = c.DeleteMany(ctx, doc("_id", among(ids)))
	return len(found), err
}
