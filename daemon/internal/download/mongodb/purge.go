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
			return removeSome(ctx, s.logs, doc("job", d.ID), options.Find(), s.removeMarks)
		},
		func(ctx context.Context) (int, error) { // files whose log has expired
			return removeSome(ctx, s.files, doc("metadata.job", d.ID), options.Find(), s.removeFiles)
		},
	}
	for _, c := range []*mongo.Collection{s.data, s.tasks, s.settings} {
		parts = append(parts, func(ctx context.Context) (int, error) {
			return removeSome(ctx, c, doc("job", d.ID), options.Find(), removeFrom(c))
		})
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

// removeSome passes the ids of some of the documents that a query finds to remove, and returns how many they are.
func removeSome[ID any](ctx context.Context, c *mongo.Collection, which bson.D, opt *options.FindOptionsBuilder, remove func(context.Context, []ID) error) (int, error) {
	found, err := find[struct {
		ID ID `bson:"_id"`
	}](ctx, c, which, opt.SetLimit(together).SetProjection(doc("_id", 1)))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	ids := make([]ID, len(found))
	for i, d := range found {
		ids[i] = d.ID
	}
	return len(found), remove(ctx, ids)
}

// removeFrom removes documents of a collection by their ids.
func removeFrom(c *mongo.Collection) func(context.Context, []any) error {
	return func(ctx context.Context, ids []any) error {
		_, err := c.DeleteMany(ctx, doc("_id", among(ids)))
		return err
	}
}
