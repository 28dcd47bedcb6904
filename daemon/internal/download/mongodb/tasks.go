package mongodb

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// together is how many documents one call to the server writes or reads.
const together = 1000

// markAt makes a mark: a unique id. Marks are ordered by the seconds of the server's clock.
func markAt(now moment) bson.ObjectID { return bson.NewObjectIDFromTimestamp(now.least) }

// valid replaces bytes that BSON cannot store.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// find reads all documents that a query finds.
func find[T any](ctx context.Context, c *mongo.Collection, which bson.D, opt ...options.Lister[options.FindOptions]) ([]T, error) {
	cursor, err := c.Find(ctx, which, opt...)
	if err != nil {
		return nil, err
	}
	var all []T
	err = cursor.All(ctx, &all)
	return all, err
}

// AddTasks implements download.Tasks. If the server has not answered, tasks that it may have
// stored are not counted.
func (s *Store) AddTasks(ctx context.Context, job int64, tasks []download.NewTask) (int, error) {
	return download.InParts(tasks, together, func(some []download.NewTask) (fresh int, err error) {
		err = s.retry(ctx, func(ctx context.Context, _ bool) (err error) {
			if _, err := s.live(ctx, job); err != nil || len(some) == 0 {
				return err
			}
			fresh, err = s.insertTasks(ctx, job, some)
			return err
		})
		return fresh, err
	})
}

// insertTasks stores tasks that do not exist yet, and returns how many they are.
func (s *Store) insertTasks(ctx context.Context, job int64, tasks []download.NewTask) (int, error) {
	now, err := s.clock.now(ctx)
	if err != nil {
		return 0, err
	}
	seen := make(map[string]bool, len(tasks))
	docs := make([]taskDoc, 0, len(tasks))
	for _, task := range tasks {
		queue := download.QueueOf(task.URI)
		d := taskDoc{ID: download.TaskID(job, task.URI), Job: job, URI: task.URI, Shard: task.Shard, Queue: &queue, State: string(download.Waiting), NotBefore: now.least, Added: now.least}
		if !seen[d.ID] {
			seen[d.ID] = true
			docs = append(docs, d)
		}
	}
	_, err = s.tasks.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
	known, err := duplicates(err)
	return len(docs) - len(known), err
}

// duplicates returns the places of those documents in a bulk insert that existed already. The
// error holds any other failures.
func duplicates(err error) (map[int]bool, error) {
	var several mongo.BulkWriteException
	if !errors.As(err, &several) || several.WriteConcernError != nil {
		return nil, err
	}
	there := map[int]bool{}
	for _, e := range several.WriteErrors {
		if e.Code != codeDuplicate {
			return nil, err
		}
		there[e.Index] = true
	}
	return there, nil
}

// Lease implements download.Tasks.
func (s *Store) Lease(ctx context.Context, want download.Want) ([]download.Lease, error) {
	if want.Max <= 0 || len(want.Shards) == 0 || len(want.Lanes) == 0 {
		return nil, ctx.Err()
	}
	var leases []download.Lease
	err := s.retry(ctx, func(ctx context.Context, _ bool) error {
		jobs, err := s.liveJobs(ctx)
		if err != nil {
			return err
		}
		var served []int64
		for id, j := range jobs {
			if j.On && want.Serves(j.Needs) && slices.Contains(want.Lanes, download.Lane(j.Lane)) {
				served = append(served, id)
			}
		}
		if len(served) == 0 {
			return nil
		}
		slices.Sort(served)
		docs, err := s.claim(ctx, want.Max-len(leases), doc("rank", 1, "_id", 1), func(now moment) bson.D {
			// The index on rank is used only if the query asks that rank exists.
			which := doc("rank", doc("$exists", true), "state", string(download.Ready), "until", doc("$gt", now.least), "job", among(served))
			if len(want.Shards) < download.Shards || slices.ContainsFunc(want.Shards, func(n int) bool { return n < 0 || n >= download.Shards }) {
				which = append(which, doc("shard", among(want.Shards))...)
			}
			if len(want.Enough) > 0 {
				which = append(which, doc("queue", doc("$nin", want.Enough))...)
			}
			return which
		}, func(d taskDoc) int { return jobs[d.Job].Version }, func(now moment, version int) bson.D {
			return doc("$set", doc("state", string(download.Running), "owner", want.Owner, "version", version, "until", now.until(want.For)),
				"$unset", doc("rank", "", "not_before", ""), "$inc", doc("attempts", 1, "fence", int64(1)))
		})
		for _, d := range docs {
			leases = append(leases, download.Lease{Task: d.task(), Version: d.Version})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return leases, nil
}

// claim changes up to n tasks, the first by an order, and returns them in their new state, in that
// order. Each change is one update that matches the task only as it was read, so that one of
// several callers gets it. While others are faster, claim reads again, further down the order each
// time, so that callers do not collide repeatedly. Updates put the mark of this call on the tasks.
// A read afterwards shows which it got, even if answers were lost.
func (s *Store) claim(ctx context.Context, n int, order bson.D, which func(moment) bson.D, group func(taskDoc) int, update func(moment, int) bson.D) ([]taskDoc, error) {
	var got []taskDoc
	for try := 1; n > len(got); try++ {
		now, err := s.clock.now(ctx)
		if err != nil {
			return got, err
		}
		left := n - len(got)
		found, err := find[taskDoc](ctx, s.tasks, which(now), options.Find().SetSort(order).SetLimit(int64(left)*int64(min(try, 8))).
			SetProjection(doc("_id", 1, "job", 1)))
		if err != nil || len(found) == 0 {
			return got, err
		}
		place := make(map[string]int, len(found))
		for i, d := range found {
			place[d.ID] = i
		}
		rand.Shuffle(len(found), func(i, j int) {
			if try > 1 {
				found[i], found[j] = found[j], found[i]
			}
		})
		found = found[:min(left, len(found))]
		var mine []taskDoc
		for some := range slices.Chunk(found, together) {
			changed, err := s.change(ctx, some, which, group, update)
			mine = append(mine, changed...)
			if err != nil {
				return append(got, mine...), err
			}
		}
		slices.SortFunc(mine, func(a, b taskDoc) int { return place[a.ID] - place[b.ID] })
		got = append(got, mine...)
		if len(mine) == len(found) {
			break
		}
	}
	return got, nil
}

// change is claim for tasks that were read already.
func (s *Store) change(ctx context.Context, found []taskDoc, which func(moment) bson.D, group func(taskDoc) int, update func(moment, int) bson.D) ([]taskDoc, error) {
	now, err := s.clock.now(ctx)
	if err != nil {
		return nil, err
	}
	mark := markAt(now)
	groups := map[int][]string{}
	var ids []string
	for _, d := range found {
		groups[group(d)] = append(groups[group(d)], d.ID)
		ids = append(ids, d.ID)
	}
	var mine []taskDoc
	err = s.retry(ctx, func(ctx context.Context, _ bool) error {
		var updates []mongo.WriteModel
		for g, ids := range groups {
			u := update(now, g)
			i := slices.IndexFunc(u, func(e bson.E) bool { return e.Key == "$set" })
			u[i].Value = append(u[i].Value.(bson.D), bson.E{Key: "by", Value: mark})
			updates = append(updates, mongo.NewUpdateManyModel().SetFilter(doc("$and", bson.A{doc("_id", among(ids)), which(now)})).SetUpdate(u))
		}
		for some := range slices.Chunk(updates, updatesTogether) {
			if _, err := s.tasks.BulkWrite(ctx, some, options.BulkWrite().SetOrdered(false)); err != nil {
				return err
			}
		}
		mine, err = find[taskDoc](ctx, s.tasks, doc("_id", among(ids), "by", mark))
		return err
	})
	return mine, err
}

// Renew implements download.Tasks.
func (s *Store) Renew(ctx context.Context, owner string, leases []download.Lease, ttl time.Duration) ([]string, error) {
	var lost []string
	for some := range slices.Chunk(leases, together) {
		err := s.retry(ctx, func(ctx context.Context, _ bool) error {
			missed, err := s.renew(ctx, owner, some, ttl)
			if err == nil {
				lost = append(lost, missed...)
			}
			return err
		})
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// renew renews leases, all of one fence in one update, and reads which of them hold.
func (s *Store) renew(ctx context.Context, owner string, leases []download.Lease, ttl time.Duration) (lost []string, err error) {
	now, err := s.clock.now(ctx)
	if err != nil {
		return nil, err
	}
	until := now.until(ttl)
	fences := map[int64][]string{}
	var ids []string
	for _, l := range leases {
		fences[l.Task.Fence] = append(fences[l.Task.Fence], l.Task.ID)
		ids = append(ids, l.Task.ID)
	}
	for fence, ids := range fences {
		_, err := s.tasks.UpdateMany(ctx, doc("_id", among(ids), "fence", fence, "state", string(download.Running), "owner", owner, "until", doc("$gt", now.least)),
			doc("$set", doc("until", until)))
		if err != nil {
			return nil, err
		}
	}
	// An expired lease keeps the time at which it expired, even if the read is behind.
	held, err := find[taskDoc](ctx, s.tasks, doc("_id", among(ids), "state", string(download.Running), "owner", owner, "until", doc("$gte", until)),
		options.Find().SetProjection(doc("_id", 1, "job", 1, "fence", 1)))
	if err != nil {
		return nil, err
	}
	holds := make(map[string]taskDoc, len(held))
	for _, d := range held {
		holds[d.ID] = d
	}
	for _, l := range leases {
		if d, ok := holds[l.Task.ID]; !ok || d.Job != l.Task.Job || d.Fence != l.Task.Fence {
			lost = append(lost, l.Task.ID)
		}
	}
	return lost, nil
}

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
		err := s.retry(ctx, func(ctx context.Context, unsure bool) error {
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
			if err != nil || retried == 0 && !unsure { // a try without an answer may have changed some
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
