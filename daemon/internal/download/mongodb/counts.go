package mongodb

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Counts implements download.Jobs. The server counts the tasks in an index.
func (s *Store) Counts(ctx context.Context, job int64) (map[download.State]int, error) {
	var counts map[download.State]int
	err := s.retryWithin(ctx, longer, func(ctx context.Context, _ bool) error {
		if _, err := s.live(ctx, job); err != nil {
			return err
		}
		cursor, err := s.tasks.Aggregate(ctx, bson.A{
			doc("$match", doc("job", job)), doc("$group", doc("_id", "$state", "n", doc("$sum", 1))),
		})
		if err != nil {
			return err
		}
		var groups []struct {
			State download.State `bson:"_id"`
			N     int            `bson:"n"`
		}
		if err := cursor.All(ctx, &groups); err != nil {
			return err
		}
		counts = map[download.State]int{}
		for _, state := range download.States() {
			counts[state] = 0
		}
		for _, g := range groups {
			counts[g.State] = g.N
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// refusalDoc is a document of DownloadRefusal.
type refusalDoc struct {
	ID    bson.ObjectID `bson:"_id"`
	Name  string        `bson:"name"`
	Text  string        `bson:"text"`
	Added bson.DateTime `bson:"added"`
}

// KeepRefusal implements download.Jobs.
func (s *Store) KeepRefusal(ctx context.Context, r download.Refusal) error {
	var d refusalDoc
	return s.retry(ctx, func(ctx context.Context, unsure bool) error {
		if d.ID.IsZero() {
			now, err := s.clock.now(ctx)
			if err != nil {
				return err
			}
			d = refusalDoc{ID: markAt(now), Name: valid(r.Name), Text: download.CutReason(r.Text), Added: bson.NewDateTimeFromTime(now.least)}
		}
		_, err := s.refusals.InsertOne(ctx, d)
		if err != nil && (!unsure || !mongo.IsDuplicateKeyError(err)) {
			return err
		}
		old := options.Find().SetSort(doc("added", -1, "_id", -1)).SetSkip(download.MaxRefusals)
		_, err = removeSome(ctx, s.refusals, bson.D{}, old, removeFrom(s.refusals))
		return err
	})
}

// Refusals implements download.Jobs.
func (s *Store) Refusals(ctx context.Context, limit int) ([]download.Refusal, error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	var refusals []download.Refusal
	err := s.retry(ctx, func(ctx context.Context, _ bool) error {
		all, err := find[refusalDoc](ctx, s.refusals, bson.D{}, options.Find().SetSort(doc("added", -1, "_id", -1)).SetLimit(int64(limit)))
		refusals = nil
		for _, d := range all {
			refusals = append(refusals, download.Refusal{Name: d.Name, Text: d.Text, Added: d.Added.Time().UTC()})
		}
		return err
	})
	return refusals, err
}
