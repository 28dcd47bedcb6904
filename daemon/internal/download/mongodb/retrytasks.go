package mongodb

import (
	"context"
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Retry implements download.Tasks. If the server has not answered, tasks that it may have changed are not counted.
func (s *Store) Retry(ctx context.Context, job int64, ids []string) (int, error) {
	retried := 0
	err := s.retry(ctx, func(ctx context.Context, _ bool) error {
		_, err := s.live(ctx, job)
		return err
	})
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(ids, together) {
		err := s.retry(ctx, func(ctx context.Context, _ bool) error {
			if _, err := s.live(ctx, job); err != nil {
				return err
			}
			now, err := s.clock.now(ctx)
			if err != nil {
				return err
			}
			res, err := s.tasks.UpdateMany(ctx, doc("_id", among(some), "job", job, "state", string(download.Failed)),
				doc("$set", doc("state", string(download.Waiting), "not_before", now.least, "attempts", 0), "$unset", doc("abandoned", "")))
			if res != nil {
				retried += int(res.ModifiedCount)
			}
			if err != nil || retried == 0 {
				return err
			}
			_, err = s.jobs.UpdateOne(ctx, doc("_id", job), doc("$set", doc("reported", 0)))
			return err
		})
		if err != nil {
			return retried, err
		}
	}
	return retried, nil
}
