package mongodb

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Sweep implements download.Tasks. Several may run at once: each task is swept by only one of them.
func (s *Store) Sweep(ctx context.Context, keepLogs time.Duration) (download.Swept, error) {
	var swept download.Swept
	_, now, err := s.mark(ctx)
	if err != nil {
		return swept, err
	}
	if err := s.purgeAll(ctx, now); err != nil {
		return swept, err
	}
	err = s.retryWithin(ctx, longer, func(ctx context.Context, _ bool) error {
		res, err := s.tasks.UpdateMany(ctx, doc("state", string(download.Ready), "until", doc("$lte", now.least)),
			doc("$set", doc("state", string(download.Waiting)), "$unset", doc("until", "", "rank", "")))
		if res != nil {
			swept.Unclaimed += int(res.ModifiedCount)
		}
		return err
	})
	if err != nil {
		return swept, err
	}
	if err := s.sweepRunning(ctx, now, &swept); err != nil {
		return swept, err
	}
	if err := s.sweepMarks(ctx, now); err != nil {
		return swept, err
	}
	if keepLogs > 0 {
		err := s.retryWithin(ctx, longer, func(ctx context.Context, _ bool) error {
			res, err := s.logs.DeleteMany(ctx, doc("added", doc("$lt", now.least.Add(-keepLogs))))
			if res != nil {
				swept.Logs += int(res.DeletedCount)
			}
			return err
		})
		if err != nil {
			return swept, err
		}
	}
	return swept, s.sweepRoles(ctx, now)
}

// sweepRunning ends leases that have expired.
func (s *Store) sweepRunning(ctx context.Context, now moment, swept *download.Swept) error {
	for {
		var found []taskDoc
		err := s.retry(ctx, func(ctx context.Context, _ bool) (err error) {
			jobs, err := s.liveJobs(ctx)
			if err != nil {
				return err
			}
			ids := slices.Collect(maps.Keys(jobs))
			found, err = find[taskDoc](ctx, s.tasks, doc("state", string(download.Running), "until", doc("$lte", now.least), "job", among(ids)),
				options.Find().SetLimit(page))
			return err
		})
		if err != nil || len(found) == 0 {
			return err
		}
		ended, failed, err := s.abandon(ctx, now, found)
		if err != nil {
			return err
		}
		swept.Abandoned += ended
		swept.Failed += failed
		if len(found) < page {
			return nil
		}
	}
}

// updatesTogether is how many updates one command has. FerretDB needs a connection to its own
// database for each update, and has 100.
const updatesTogether = 50

// abandon ends leases that have expired. It returns how many it has ended, and how many of these
// tasks have failed. Logs are written first, as workers do.
func (s *Store) abandon(ctx context.Context, now moment, found []taskDoc) (ended, failed int, err error) {
	var logs []logDoc
	var changes []mongo.WriteModel
	marks := map[bson.ObjectID]bool{} // whether the task has failed
	var ids []string
	for _, d := range found {
		mark := markAt(now)
		n := d.Abandoned + 1
		reason := download.CutReason(download.Abandoned(d.Owner, n))
		logs = append(logs, logOf(mark, now, d.Job, d.ID, d.URI, d.Fence, 0, d.Version, download.Attempt{Reason: reason}))
		set := doc("state", string(download.Waiting), "failed_reason", reason, "by", mark, "not_before", now.least.Add(download.PauseAbandoned(d.ID, n)))
		if marks[mark] = n >= download.MaxAbandoned; marks[mark] {
			set = doc("state", string(download.Failed), "failed_reason", reason, "by", mark)
		}
		changes = append(changes, mongo.NewUpdateOneModel().
			SetFilter(doc("_id", d.ID, "fence", d.Fence, "state", string(download.Running), "until", doc("$lte", now.least))).
			SetUpdate(doc("$set", set, "$unset", doc("until", "", "owner", ""), "$push", doc("ends", mark), "$inc", doc("attempts", -1, "abandoned", 1))))
		ids = append(ids, d.ID)
	}
	err = s.retry(ctx, func(ctx context.Context, unsure bool) error {
		_, err := s.logs.InsertMany(ctx, logs, options.InsertMany().SetOrdered(false))
		if unsure && mongo.IsDuplicateKeyError(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	for some := range slices.Chunk(changes, updatesTogether) {
		err = s.retry(ctx, func(ctx context.Context, _ bool) error {
			_, err := s.tasks.BulkWrite(ctx, some, options.BulkWrite().SetOrdered(false))
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	ends, _, err := s.named(ctx, ids)
	for mark, last := range marks {
		if ends[mark] {
			ended++
			if last {
				failed++
			}
		}
	}
	return ended, failed, err
}

// grace is the age below which nothing counts as a leftover: by then, writes on their way have arrived.
const grace = time.Minute

// sweepMarks removes leftovers of interrupted calls: logs, data and bodies of marks that no task
// names, and that none can name any more, because their lease has ended. Marks are checked once
// each, in their order; a mark whose lease holds blocks those after it.
func (s *Store) sweepMarks(ctx context.Context, now moment) error {
	var swept struct {
		Mark bson.ObjectID `bson:"mark"`
	}
	err := s.retry(ctx, func(ctx context.Context, _ bool) error {
		err := s.meta.FindOne(ctx, doc("_id", metaSwept)).Decode(&swept)
		if err == mongo.ErrNoDocuments {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	end := bson.NewObjectIDFromTimestamp(now.least.Add(-grace))
	clear(end[4:]) // the first mark of its second
	for {
		var logs []logDoc
		var tasks []taskDoc
		err := s.retry(ctx, func(ctx context.Context, _ bool) (err error) {
			logs, err = find[logDoc](ctx, s.logs, doc("_id", doc("$gt", swept.Mark, "$lt", end)),
				options.Find().SetSort(doc("_id", 1)).SetLimit(together).SetProjection(doc("task", 1, "fence", 1)))
			if err != nil || len(logs) == 0 {
				return err
			}
			var ids []string
			for _, d := range logs {
				ids = append(ids, d.Task)
			}
			tasks, err = find[taskDoc](ctx, s.tasks, doc("_id", among(ids)), options.Find().SetProjection(doc("ends", 1, "state", 1, "fence", 1)))
			return err
		})
		if err != nil || len(logs) == 0 {
			return err
		}
		byID := map[string]taskDoc{}
		for _, d := range tasks {
			byID[d.ID] = d
		}
		var left []bson.ObjectID
		open := slices.IndexFunc(logs, func(l logDoc) bool {
			t := byID[l.Task]
			if slices.Contains(t.Ends, l.ID) {
				return false
			}
			if t.State == string(download.Running) && t.Fence == l.Fence {
				return true
			}
			left = append(left, l.ID)
			return false
		})
		if open >= 0 {
			logs = logs[:open]
		}
		err = s.retry(ctx, func(ctx context.Context, _ bool) error {
			if len(left) > 0 {
				if err := s.removeMarks(ctx, left); err != nil {
					return err
				}
			}
			if len(logs) == 0 {
				return nil
			}
			swept.Mark = logs[len(logs)-1].ID
			_, err := s.meta.UpdateOne(ctx, doc("_id", metaSwept), doc("$set", doc("mark", swept.Mark)), options.UpdateOne().SetUpsert(true))
			return err
		})
		if err != nil || open >= 0 || len(logs) < together {
			return err
		}
	}
}
