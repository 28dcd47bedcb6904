package mongodb

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// GiveBack implements download.Tasks.
func (s *Store) GiveBack(ctx context.Context, l download.Lease, notBefore time.Time) error {
	mark, now, err := s.mark(ctx)
	if err != nil {
		return err
	}
	if notBefore.IsZero() {
		notBefore = now.least
	}
	return s.settle(ctx, l, "by", mark, doc(
		"$set", doc("state", string(download.Waiting), "not_before", notBefore, "by", mark),
		"$unset", doc("until", "", "owner", ""), "$inc", doc("attempts", -1)))
}

// Fail implements download.Tasks.
func (s *Store) Fail(ctx context.Context, l download.Lease, a download.Attempt, retry time.Time) error {
	mark, now, err := s.mark(ctx)
	if err != nil {
		return err
	}
	if err := s.addLog(ctx, mark, now, l, a); err != nil {
		return err
	}
	set := doc("state", string(download.Failed), "failed_reason", download.CutReason(a.Reason), "by", mark)
	if !retry.IsZero() {
		set = append(set, bson.E{Key: "not_before", Value: retry})
		set[0].Value = string(download.Waiting)
	}
	err = s.settle(ctx, l, "ends", mark, doc("$set", set, "$unset", doc("until", "", "owner", ""), "$push", doc("ends", mark)))
	return s.settled(ctx, mark, err)
}

// Finish implements download.Tasks. Log, body and data are stored one after the other. They count
// once the task is done.
func (s *Store) Finish(ctx context.Context, l download.Lease, r download.Result, a download.Attempt) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	body, err := readBody(ctx, r.Body, s.opt.Inline)
	if err != nil {
		return err
	}
	if body.all != nil { // check before sending it in vain
		if err := s.mayHold(ctx, l); err != nil {
			return err
		}
	}
	mark, now, err := s.mark(ctx)
	if err != nil {
		return err
	}
	if err := s.addLog(ctx, mark, now, l, a); err != nil {
		return err
	}
	if err := s.addData(ctx, mark, now, l, r, a, body); err != nil {
		s.remove(ctx, mark) // the task cannot name it
		return err
	}
	err = s.settle(ctx, l, "ends", mark, doc("$set", doc("state", string(download.Done), "data", mark, "by", mark),
		"$unset", doc("until", "", "owner", "", "failed_reason", ""), "$push", doc("ends", mark)))
	return s.settled(ctx, mark, err)
}

// mark returns a new mark, and its time.
func (s *Store) mark(ctx context.Context) (bson.ObjectID, moment, error) {
	var now moment
	err := s.retry(ctx, func(ctx context.Context, _ bool) (err error) {
		now, err = s.clock.now(ctx)
		return err
	})
	if err != nil {
		return bson.ObjectID{}, now, err
	}
	return markAt(now), now, nil
}

// holding is the condition that a lease still holds.
func holding(l download.Lease, now moment) bson.D {
	return doc("_id", l.Task.ID, "job", l.Task.Job, "fence", l.Task.Fence, "state", string(download.Running), "until", doc("$gt", now.least))
}

// mayHold refuses a lease that is lost.
func (s *Store) mayHold(ctx context.Context, l download.Lease) error {
	return s.retry(ctx, func(ctx context.Context, _ bool) error {
		now, err := s.clock.now(ctx)
		if err != nil {
			return err
		}
		err = s.tasks.FindOne(ctx, holding(l, now), options.FindOne().SetProjection(doc("_id", 1))).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return download.ErrLeaseLost
		}
		return err
	})
}

// settle ends a lease, if it holds: ErrLeaseLost. The update puts a mark into a field. If a try had
// no answer and the lease no longer holds, settle looks for the mark. It does so with an update,
// because a read may not yet see the effect of one.
func (s *Store) settle(ctx context.Context, l download.Lease, field string, mark bson.ObjectID, update bson.D) error {
	return s.retry(ctx, func(ctx context.Context, unsure bool) error {
		now, err := s.clock.now(ctx)
		if err != nil {
			return err
		}
		res, err := s.tasks.UpdateOne(ctx, holding(l, now), update)
		if err != nil || res.MatchedCount == 1 {
			return err
		}
		if unsure {
			res, err := s.tasks.UpdateOne(ctx, doc("_id", l.Task.ID, field, mark), doc("$set", doc("sure", mark)))
			if err != nil || res.MatchedCount == 1 {
				return err
			}
		}
		return download.ErrLeaseLost
	})
}

// settled removes the data of a mark whose lease did not hold.
func (s *Store) settled(ctx context.Context, mark bson.ObjectID, err error) error {
	if errors.Is(err, download.ErrLeaseLost) {
		s.remove(ctx, mark)
	}
	return err
}

// remove removes the data of marks that no task names, as far as it can; sweeps remove the rest.
func (s *Store) remove(ctx context.Context, marks ...bson.ObjectID) {
	_ = s.retry(context.WithoutCancel(ctx), func(ctx context.Context, _ bool) error { return s.removeMarks(ctx, marks) })
}

// removeMarks removes the data of marks, the logs last.
func (s *Store) removeMarks(ctx context.Context, marks []bson.ObjectID) error {
	var files []string
	for _, mark := range marks {
		files = append(files, bodyFile(mark), recordsFile(mark))
	}
	if err := s.removeFiles(ctx, files); err != nil {
		return err
	}
	for _, c := range []*mongo.Collection{s.data, s.logs} {
		if _, err := c.DeleteMany(ctx, doc("_id", among(marks))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) addLog(ctx context.Context, mark bson.ObjectID, now moment, l download.Lease, a download.Attempt) error {
	return s.insert(ctx, s.logs, logOf(mark, now, l.Task.Job, l.Task.ID, l.Task.URI, l.Task.Fence, l.Task.Attempts, l.Version, a))
}

func logOf(mark bson.ObjectID, now moment, job int64, task, uri string, fence int64, number, version int, a download.Attempt) logDoc {
	return logDoc{
		ID: mark, Job: job, Task: task, URI: uri, Fence: fence, Number: number, Version: version, Status: a.Status,
		Reason: download.CutReason(a.Reason), HostName: valid(a.HostName), Spent: a.Spent.Microseconds(), Added: now.least,
	}
}

// insert stores a document whose _id is unique.
func (s *Store) insert(ctx context.Context, c *mongo.Collection, d any) error {
	return s.retry(ctx, func(ctx context.Context, unsure bool) error {
		_, err := c.InsertOne(ctx, d)
		if unsure && mongo.IsDuplicateKeyError(err) {
			return nil
		}
		return err
	})
}

func (s *Store) addData(ctx context.Context, mark bson.ObjectID, now moment, l download.Lease, r download.Result, a download.Attempt, body taken) error {
	d := dataDoc{
		ID: mark, Job: l.Task.Job, Task: l.Task.ID, Version: l.Version, TaskURI: l.Task.URI, URI: valid(r.URI), Status: r.Status,
		ContentType: valid(r.ContentType), Encoding: valid(r.Encoding), HostName: valid(a.HostName), Added: now.least,
	}
	for name, values := range r.Header {
		h := headerDoc{Name: valid(name), Values: make([]string, len(values))}
		for i, value := range values {
			h.Values[i] = valid(value)
		}
		d.Header = append(d.Header, h)
	}
	slices.SortFunc(d.Header, func(a, b headerDoc) int { return strings.Compare(a.Name, b.Name) })
	var err error
	if len(r.Records) > s.opt.Inline {
		d.RecordsFile = recordsFile(mark)
		_, err = s.upload(ctx, d.RecordsFile, l.Task, now, bytes.NewReader(r.Records))
	} else {
		d.Records = r.Records
	}
	if err != nil {
		return err
	}
	if body.all == nil {
		d.Body, d.Size = body.start, int64(len(body.start))
	} else {
		d.BodyFile = bodyFile(mark)
		d.Size, err = s.upload(ctx, d.BodyFile, l.Task, now, body.all)
	}
	if err != nil {
		return err
	}
	d.SHA256 = hex.EncodeToString(body.sum.Sum(nil))
	return s.insert(ctx, s.data, d)
}
