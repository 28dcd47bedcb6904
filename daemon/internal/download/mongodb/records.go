package mongodb

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// page is how many documents are read at once.
const page = 500

// nextPage reads documents of a job that was not dropped.
func nextPage[T any](ctx context.Context, s *Store, c *mongo.Collection, job int64, which bson.D, opt *options.FindOptionsBuilder, limit int) (all []T, err error) {
	err = s.retry(ctx, func(ctx context.Context, _ bool) error {
		if _, err := s.live(ctx, job); errors.Is(err, download.ErrNoJob) {
			all = nil
			return nil
		} else if err != nil {
			return err
		}
		all, err = find[T](ctx, c, append(doc("job", job), which...), opt.SetLimit(int64(limit)))
		return err
	})
	return all, err
}

// ListTasks implements download.Records, ordered by id.
func (s *Store) ListTasks(ctx context.Context, q download.Query, each func(download.Task) error) error {
	after := ""
	return download.InPages(q.Limit, page, func(limit int) ([]download.Task, bool, error) {
		which := doc("_id", doc("$gt", after))
		if q.Task != "" {
			which = doc("_id", q.Task)
		}
		if q.State != "" {
			which = append(which, bson.E{Key: "state", Value: string(q.State)})
		}
		some, err := nextPage[taskDoc](ctx, s, s.tasks, q.Job, which, options.Find().SetSort(doc("_id", 1)), limit)
		tasks := make([]download.Task, len(some))
		for i, d := range some {
			tasks[i], after = d.task(), d.ID
		}
		return tasks, len(some) == limit && q.Task == "", err
	}, each)
}

// named returns the marks that the documents of tasks name.
func (s *Store) named(ctx context.Context, ids []string) (ends, data map[bson.ObjectID]bool, err error) {
	ends, data = map[bson.ObjectID]bool{}, map[bson.ObjectID]bool{}
	err = s.retry(ctx, func(ctx context.Context, _ bool) error {
		tasks, err := find[taskDoc](ctx, s.tasks, doc("_id", among(ids)), options.Find().SetProjection(doc("ends", 1, "data", 1)))
		for _, d := range tasks {
			for _, mark := range d.Ends {
				ends[mark] = true
			}
			data[d.Data] = true
		}
		return err
	})
	return ends, data, err
}

// ListData implements download.Records, ordered by time.
func (s *Store) ListData(ctx context.Context, q download.Query, each func(download.Data) error) error {
	var after bson.ObjectID
	return download.InPages(q.Limit, page, func(limit int) ([]download.Data, bool, error) {
		which := doc("_id", doc("$gt", after))
		if q.Task != "" {
			which = append(which, bson.E{Key: "task", Value: q.Task})
		}
		some, err := nextPage[dataDoc](ctx, s, s.data, q.Job, which, options.Find().SetSort(doc("_id", 1)).SetProjection(doc("body", 0)), limit)
		if err != nil || len(some) == 0 {
			return nil, false, err
		}
		after = some[len(some)-1].ID
		var ids []string
		for _, d := range some {
			ids = append(ids, d.Task)
		}
		_, named, err := s.named(ctx, ids)
		if err != nil {
			return nil, false, err
		}
		var data []download.Data
		for _, d := range some {
			if !named[d.ID] {
				continue
			}
			one, err := s.dataOf(ctx, d)
			if errors.Is(err, download.ErrNoData) { // the job has been dropped meanwhile
				continue
			}
			if err != nil {
				return nil, false, err
			}
			data = append(data, one)
		}
		return data, len(some) == limit, nil
	}, each)
}

func (s *Store) dataOf(ctx context.Context, d dataDoc) (download.Data, error) {
	one := download.Data{
		Job: d.Job, Task: d.Task, Version: d.Version, TaskURI: d.TaskURI, URI: d.URI, Status: d.Status, ContentType: d.ContentType,
		Encoding: d.Encoding, Size: d.Size, SHA256: d.SHA256, Records: d.Records, HostName: d.HostName, Added: d.Added,
	}
	if len(d.Header) > 0 {
		one.Header = http.Header{}
	}
	for _, h := range d.Header {
		one.Header[h.Name] = h.Values
	}
	if d.RecordsFile == "" {
		return one, nil
	}
	r, err := s.open(ctx, d.RecordsFile)
	if err != nil {
		return one, err
	}
	one.Records, err = io.ReadAll(r)
	return one, err
}

// ListLogs implements download.Records, ordered by time.
func (s *Store) ListLogs(ctx context.Context, q download.Query, each func(download.Log) error) error {
	var last logDoc
	return download.InPages(q.Limit, page, func(limit int) ([]download.Log, bool, error) {
		var which bson.D
		order := 1
		if q.Newest {
			order, limit = -1, 2*limit // some may be of attempts that have not ended
		} else if last.ID.IsZero() && !q.Since.IsZero() {
			which = doc("added", doc("$gte", q.Since))
		}
		if !last.ID.IsZero() {
			which = doc("added", doc("$gte", last.Added), "$or", bson.A{doc("added", doc("$gt", last.Added)), doc("_id", doc("$gt", last.ID))})
		}
		if q.Task != "" {
			which = append(which, bson.E{Key: "task", Value: q.Task})
		}
		some, err := nextPage[logDoc](ctx, s, s.logs, q.Job, which, options.Find().SetSort(doc("added", order, "_id", order)), limit)
		if err != nil || len(some) == 0 {
			return nil, false, err
		}
		last = some[len(some)-1]
		var ids []string
		for _, d := range some {
			ids = append(ids, d.Task)
		}
		named, _, err := s.named(ctx, ids)
		var logs []download.Log
		for _, d := range some {
			if named[d.ID] {
				logs = append(logs, download.Log{
					Job: d.Job, Task: d.Task, TaskURI: d.URI, Number: d.Number, Version: d.Version, Added: d.Added,
					Attempt: download.Attempt{Status: d.Status, Reason: d.Reason, HostName: d.HostName, Spent: time.Duration(d.Spent) * time.Microsecond},
				})
			}
		}
		if q.Newest {
			return logs[:min(len(logs), limit/2)], false, err
		}
		return logs, len(some) == limit, err
	}, each)
}

// Body implements download.Records.
func (s *Store) Body(ctx context.Context, task string) (io.ReadCloser, error) {
	var d dataDoc
	err := s.retry(ctx, func(ctx context.Context, _ bool) error {
		var t taskDoc
		if err := s.tasks.FindOne(ctx, doc("_id", task)).Decode(&t); err != nil {
			return err
		}
		if _, err := s.live(ctx, t.Job); err != nil {
			return err
		}
		return s.data.FindOne(ctx, doc("_id", t.Data)).Decode(&d)
	})
	switch {
	case errors.Is(err, mongo.ErrNoDocuments), errors.Is(err, download.ErrNoJob):
		return nil, download.ErrNoData
	case err != nil:
		return nil, err
	}
	var body io.ReadCloser = io.NopCloser(bytes.NewReader(d.Body))
	if d.BodyFile != "" {
		if body, err = s.open(ctx, d.BodyFile); err != nil {
			return nil, err
		}
	}
	return download.Checked(task, d.Size, d.SHA256, body), nil
}
