package mongodb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// AddJob implements download.Jobs. If it is interrupted, a number and a setting that nothing
// refers to may remain.
func (s *Store) AddJob(ctx context.Context, j download.Job) (download.Job, error) {
	setting, err := json.Marshal(j.Setting)
	if err != nil {
		return download.Job{}, err
	}
	var d jobDoc
	err = s.retry(ctx, func(ctx context.Context, unsure bool) error {
		if unsure && d.ID != 0 {
			if n, err := s.jobs.UpdateOne(ctx, doc("_id", d.ID), doc("$set", doc("sure", true))); err != nil || n.MatchedCount == 1 {
				return err
			}
		}
		if err := s.jobs.FindOne(ctx, doc("name", j.Name)).Err(); err == nil {
			return download.ErrExists
		} else if !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		now, err := s.clock.now(ctx)
		if err != nil {
			return err
		}
		if j.ID, err = s.nextJob(ctx); err != nil {
			return err
		}
		j.Version, j.Added, j.Changed = 1, now.least, now.least
		mark := markAt(now)
		if err := s.addSetting(ctx, mark, j, setting); err != nil {
			return err
		}
		d = jobDoc{
			ID: j.ID, Name: j.Name, Priority: j.Priority, On: j.On, Filter: j.Filter, Version: 1, Versions: []bson.ObjectID{mark},
			Lane: string(j.Setting.Lane), MaxAttempts: j.Setting.MaxAttempts, Needs: j.Needs(), Added: j.Added,
		}
		_, err = s.jobs.InsertOne(ctx, d)
		if mongo.IsDuplicateKeyError(err) {
			_, _ = s.settings.DeleteOne(ctx, doc("_id", mark)) // nothing refers to it
			return download.ErrExists
		}
		return err
	})
	if err != nil {
		return download.Job{}, err
	}
	return j, nil
}

// nextJob returns a number that no job has had.
func (s *Store) nextJob(ctx context.Context) (int64, error) {
	for {
		var m struct {
			N int64 `bson:"n"`
		}
		err := s.meta.FindOneAndUpdate(ctx, doc("_id", metaJob), doc("$inc", doc("n", int64(1))),
			options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&m)
		if !mongo.IsDuplicateKeyError(err) { // two callers create the document at once
			return m.N, err
		}
	}
}

func (s *Store) addSetting(ctx context.Context, mark bson.ObjectID, j download.Job, setting []byte) error {
	_, err := s.settings.InsertOne(ctx, settingDoc{
		ID: mark, Job: j.ID, Version: j.Version, Setting: string(setting), Language: j.Code.Language,
		File: j.Code.File, Code: j.Code.Text, SHA256: j.Code.SHA256(), Changed: j.Changed,
	})
	return err
}

// ChangeJob implements download.Jobs. Its read and its write are one step, because the job must
// still have the version that was read.
func (s *Store) ChangeJob(ctx context.Context, j download.Job) (download.Job, error) {
	setting, err := json.Marshal(j.Setting)
	if err != nil {
		return download.Job{}, err
	}
	var changed download.Job
	err = s.retry(ctx, func(ctx context.Context, _ bool) error {
		for {
			d, err := s.findJob(ctx, doc("name", j.Name))
			if err != nil {
				return err
			}
			if changed, err = s.jobOf(ctx, d, d.Version); err != nil {
				return err
			}
			now, err := s.clock.now(ctx)
			if err != nil {
				return err
			}
			changed.Priority, changed.Filter = j.Priority, j.Filter
			set := doc("priority", j.Priority, "filter", j.Filter)
			update := doc("$set", set)
			if !changed.Setting.Equal(j.Setting) || changed.Code != j.Code {
				changed.Version++
				changed.Setting, changed.Code, changed.Changed = j.Setting, j.Code, now.least
				mark := markAt(now)
				if err := s.addSetting(ctx, mark, changed, setting); err != nil {
					return err
				}
				update = doc("$set", append(set, doc("version", changed.Version, "lane", string(j.Setting.Lane), "max_download_times", j.Setting.MaxAttempts, "needs", changed.Needs())...),
					"$push", doc("versions", mark))
			}
			res, err := s.jobs.UpdateOne(ctx, doc("_id", d.ID, "version", d.Version, "dropped", false), update)
			if err != nil || res.MatchedCount == 1 {
				return err
			}
		}
	})
	if err != nil {
		return download.Job{}, err
	}
	return changed, nil
}

// SwitchJob implements download.Jobs.
func (s *Store) SwitchJob(ctx context.Context, name string, on bool) error {
	return s.retry(ctx, func(ctx context.Context, _ bool) error {
		res, err := s.jobs.UpdateOne(ctx, doc("name", name, "dropped", false), doc("$set", doc("status", on)))
		if err == nil && res.MatchedCount == 0 {
			return download.ErrNoJob
		}
		return err
	})
}

// MarkReported implements download.Jobs.
func (s *Store) MarkReported(ctx context.Context, job int64, tasks int) error {
	return s.retry(ctx, func(ctx context.Context, _ bool) error {
		res, err := s.jobs.UpdateOne(ctx, doc("_id", job, "dropped", false), doc("$set", doc("reported", tasks)))
		if err == nil && res.MatchedCount == 0 {
			return download.ErrNoJob
		}
		return err
	})
}

// DropJob implements download.Jobs. Once it has begun, it continues until nothing of the job can
// be settled, even if ctx ends; Sweep removes the rest.
func (s *Store) DropJob(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	var d jobDoc
	begun := context.WithoutCancel(ctx)
	err := s.retry(begun, func(ctx context.Context, unsure bool) (err error) {
		if d.ID == 0 {
			if d, err = s.findJob(ctx, doc("name", name)); err != nil {
				return err
			}
		}
		res, err := s.jobs.UpdateOne(ctx, doc("_id", d.ID, "dropped", false), doc("$set", doc("dropped", true, "name", fmt.Sprintf("%s (dropped %d)", name, d.ID))))
		if err == nil && res.MatchedCount == 0 && !unsure {
			return download.ErrNoJob
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.endLeases(begun, d.ID); err != nil {
		return err
	}
	if err := s.purge(ctx, d); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// endLeases makes sure that no lease of a dropped job holds.
func (s *Store) endLeases(ctx context.Context, job int64) error {
	return s.retryWithin(ctx, longer, func(ctx context.Context, _ bool) error {
		_, err := s.tasks.UpdateMany(ctx, doc("job", job, "state", among([]download.State{download.Ready, download.Running})),
			doc("$set", doc("state", string(download.Waiting)), "$unset", doc("until", "", "rank", "", "owner", "")))
		return err
	})
}

// findJob returns a job that was not dropped: ErrNoJob.
func (s *Store) findJob(ctx context.Context, which bson.D) (jobDoc, error) {
	var d jobDoc
	err := s.jobs.FindOne(ctx, which).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) || err == nil && d.Dropped {
		return jobDoc{}, download.ErrNoJob
	}
	return d, err
}

func (s *Store) live(ctx context.Context, job int64) (jobDoc, error) {
	return s.findJob(ctx, doc("_id", job))
}

// liveJobs returns all jobs that were not dropped.
func (s *Store) liveJobs(ctx context.Context) (map[int64]jobDoc, error) {
	all, err := find[jobDoc](ctx, s.jobs, doc("dropped", false))
	jobs := map[int64]jobDoc{}
	for _, d := range all {
		jobs[d.ID] = d
	}
	return jobs, err
}

// jobOf returns a job with one of its versions: ErrNoJob.
func (s *Store) jobOf(ctx context.Context, d jobDoc, version int) (download.Job, error) {
	if version < 1 || version > len(d.Versions) {
		return download.Job{}, download.ErrNoJob
	}
	var v settingDoc
	err := s.settings.FindOne(ctx, doc("_id", d.Versions[version-1])).Decode(&v)
	if errors.Is(err, mongo.ErrNoDocuments) { // it was dropped just now
		return download.Job{}, download.ErrNoJob
	}
	if err != nil {
		return download.Job{}, err
	}
	j := download.Job{
		ID: d.ID, Name: d.Name, Priority: d.Priority, On: d.On, Filter: d.Filter, Version: version,
		Code: download.Code{Language: v.Language, File: v.File, Text: v.Code}, Added: d.Added, Changed: v.Changed, Reported: d.Reported,
	}
	return j, json.Unmarshal([]byte(v.Setting), &j.Setting)
}

// Job implements download.Jobs.
func (s *Store) Job(ctx context.Context, name string) (download.Job, error) {
	return s.oneJob(ctx, doc("name", name), 0)
}

// JobVersion implements download.Jobs.
func (s *Store) JobVersion(ctx context.Context, id int64, version int) (download.Job, error) {
	if version < 1 {
		return download.Job{}, download.ErrNoJob
	}
	return s.oneJob(ctx, doc("_id", id), version)
}

// oneJob returns a job with a version, 0 for the newest.
func (s *Store) oneJob(ctx context.Context, which bson.D, version int) (j download.Job, err error) {
	err = s.retry(ctx, func(ctx context.Context, _ bool) error {
		d, err := s.findJob(ctx, which)
		if err != nil {
			return err
		}
		if version == 0 {
			j, err = s.jobOf(ctx, d, d.Version)
		} else {
			j, err = s.jobOf(ctx, d, version)
		}
		return err
	})
	return j, err
}

// ListJobs implements download.Jobs.
func (s *Store) ListJobs(ctx context.Context) ([]download.Job, error) {
	var jobs []download.Job
	err := s.retry(ctx, func(ctx context.Context, _ bool) error {
		jobs = nil
		all, err := find[jobDoc](ctx, s.jobs, doc("dropped", false), options.Find().SetSort(doc("name", 1)))
		if err != nil {
			return err
		}
		for _, d := range all {
			j, err := s.jobOf(ctx, d, d.Version)
			if errors.Is(err, download.ErrNoJob) {
				continue
			}
			if err != nil {
				return err
			}
			jobs = append(jobs, j)
		}
		return nil
	})
	return jobs, err
}
