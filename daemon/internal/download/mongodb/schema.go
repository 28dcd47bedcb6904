package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// The collections of the database.
const (
	jobsName     = "DownloadJob"
	settingsName = "DownloadSetting" // one document per version of a job
	tasksName    = "DownloadTask"
	dataName     = "DownloadData"
	logsName     = "DownloadLog"
	refusalsName = "DownloadRefusal"
	rolesName    = "DownloadRole"
	metaName     = "DownloadMeta"
	filesName    = "DownloadBody.files" // GridFS bucket: large bodies and records
	chunksName   = "DownloadBody.chunks"
)

// The documents of DownloadMeta.
const (
	metaFormat = "format" // identifies the owner of this database
	metaJob    = "job"    // the number of the newest job
	metaSwept  = "swept"  // the mark up to which leftovers were searched for
)

// format is the format of the documents. A released format never changes its meaning.
const format = 1

// jobDoc is a document of DownloadJob. Version n of the job is the document
// Versions[n-1] of DownloadSetting. Settings that it does not name are not versions.
type jobDoc struct {
	ID          int64           `bson:"_id"`
	Name        string          `bson:"name"` // unique; a dropped job gets another one
	Priority    int             `bson:"priority"`
	On          bool            `bson:"status"`
	Filter      string          `bson:"filter"`
	Version     int             `bson:"version"`
	Versions    []bson.ObjectID `bson:"versions"`
	Lane        string          `bson:"lane"` // of the newest version, as is Needs
	MaxAttempts int             `bson:"max_download_times"`
	Needs       []string        `bson:"needs,omitempty"` // Job.Needs of it; missing if an older release made the job
	Added       time.Time       `bson:"added"`
	Reported    int             `bson:"reported"`
	Dropped     bool            `bson:"dropped"`          // is being removed, and is invisible
	Purged      time.Time       `bson:"purged,omitempty"` // when all of its data was removed
}

// settingDoc is a document of DownloadSetting.
type settingDoc struct {
	ID       bson.ObjectID `bson:"_id"`
	Job      int64         `bson:"job"`
	Version  int           `bson:"version"`
	Setting  string        `bson:"setting"` // JSON, as names of headers may have dots
	Language string        `bson:"language"`
	File     string        `bson:"code_file"`
	Code     string        `bson:"download_code"`
	SHA256   string        `bson:"code_sha256"`
	Changed  time.Time     `bson:"changed"`
}

// taskDoc is a document of DownloadTask. Its _id is the hash of job and URI, which makes it unique.
// Empty fields are missing.
type taskDoc struct {
	ID        string          `bson:"_id"`
	Job       int64           `bson:"job"`
	URI       string          `bson:"uri"`
	Shard     int             `bson:"shard"`
	Queue     *int            `bson:"queue,omitempty"` // of the host, see download.QueueOf; missing if an older release has added it
	State     string          `bson:"state"`
	Attempts  int             `bson:"attempts"`
	Abandoned int             `bson:"abandoned,omitempty"`
	Fence     int64           `bson:"fence"`
	NotBefore time.Time       `bson:"not_before,omitempty"`
	Until     time.Time       `bson:"until,omitempty"` // of ready and running
	Rank      *int64          `bson:"rank,omitempty"`  // of ready
	Owner     string          `bson:"owner,omitempty"`
	Version   int             `bson:"version,omitempty"` // of the job at the last lease
	Reason    string          `bson:"failed_reason,omitempty"`
	Added     time.Time       `bson:"added"`
	By        bson.ObjectID   `bson:"by,omitempty"`   // mark of the newest hand-out, lease or end of a lease
	Ends      []bson.ObjectID `bson:"ends,omitempty"` // marks of the attempts that have ended: their logs count
	Data      bson.ObjectID   `bson:"data,omitempty"` // mark of its result
}

func (d taskDoc) task() download.Task {
	return download.Task{
		ID: d.ID, Job: d.Job, URI: d.URI, Shard: d.Shard, State: download.State(d.State), Attempts: d.Attempts, Abandoned: d.Abandoned, NotBefore: d.NotBefore,
		Until: d.Until, Owner: d.Owner, Fence: d.Fence, Reason: d.Reason, Added: d.Added,
	}
}

// logDoc is a document of DownloadLog. It is written first when an attempt ends, so that all
// leftovers have a log that leads to them.
type logDoc struct {
	ID       bson.ObjectID `bson:"_id"` // the mark
	Job      int64         `bson:"job"`
	Task     string        `bson:"task"`
	URI      string        `bson:"uri"`
	Fence    int64         `bson:"fence"`
	Number   int           `bson:"number"`
	Version  int           `bson:"version"`
	Status   int           `bson:"status"`
	Reason   string        `bson:"failed_reason,omitempty"`
	HostName string        `bson:"hostname"`
	Spent    int64         `bson:"spend_time"` // microseconds
	Added    time.Time     `bson:"added"`
}

// dataDoc is a document of DownloadData.
type dataDoc struct {
	ID          bson.ObjectID `bson:"_id"` // the mark
	Job         int64         `bson:"job"`
	Task        string        `bson:"task"`
	Version     int           `bson:"version"`
	TaskURI     string        `bson:"task_uri"`
	URI         string        `bson:"uri"`
	Status      int           `bson:"status_code"`
	Header      []headerDoc   `bson:"headers"`
	ContentType string        `bson:"content_type"`
	Encoding    string        `bson:"encoding"`
	HostName    string        `bson:"host_name"`
	Added       time.Time     `bson:"added"`
	SHA256      string        `bson:"sha256"`
	Size        int64         `bson:"size"`
	Body        []byte        `bson:"body,omitempty"`
	BodyFile    string        `bson:"body_file,omitempty"` // in GridFS
	Records     []byte        `bson:"json_data,omitempty"`
	RecordsFile string        `bson:"json_file,omitempty"`
}

type headerDoc struct {
	Name   string   `bson:"name"`
	Values []string `bson:"values"`
}

// index is an index of a collection.
type index struct {
	of   *mongo.Collection
	keys bson.D
	opt  *options.IndexOptionsBuilder
}

func (s *Store) indexes() []index {
	plain := options.Index
	return []index{
		{s.jobs, doc("name", 1), plain().SetUnique(true)},
		{s.tasks, doc("job", 1, "_id", 1), plain()},
		{s.tasks, doc("job", 1, "state", 1, "queue", 1, "not_before", 1, "_id", 1), plain()},
		{s.tasks, doc("rank", 1, "_id", 1), plain().SetPartialFilterExpression(doc("rank", doc("$exists", true)))},
		{s.tasks, doc("until", 1), plain().SetSparse(true)},
		{s.logs, doc("job", 1, "added", 1, "_id", 1), plain()},
		{s.logs, doc("task", 1), plain()},
		{s.data, doc("job", 1, "_id", 1), plain()},
		{s.data, doc("task", 1), plain()},
		{s.files, doc("metadata.job", 1), plain()},
		{s.files, doc("filename", 1, "uploadDate", 1), plain()}, // GridFS has these two
		{s.chunk, doc("files_id", 1, "n", 1), plain().SetUnique(true)},
	}
}

// Codes of expected errors.
const (
	codeNotImplemented = 238
	codeConflict       = 85
	codeDuplicate      = 11000
)

func isServer(err error) bool { return errors.As(err, new(mongo.ServerError)) }

func hasCode(err error, code int) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorCode(code)
}

// prepare refuses a database that is not ours, and creates what is missing.
func (s *Store) prepare(ctx context.Context, db *mongo.Database) error {
	ctx, cancel := context.WithTimeout(ctx, longer*s.opt.Timeout)
	defer cancel()
	if err := s.checkFormat(ctx, db); err != nil {
		return err
	}
	for _, i := range s.indexes() {
		_, err := i.of.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: i.keys, Options: i.opt})
		if hasCode(err, codeNotImplemented) { // FerretDB, for a partial index
			s.opt.Log.Info("the server does without an index", "collection", i.of.Name(), "keys", i.keys, "err", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	if err := s.dropIndex(ctx, "job_1_state_1_not_before_1__id_1"); err != nil { // hand-outs of older releases used it
		return err
	}
	return s.expireLogs(ctx, db)
}

// dropIndex drops an index of tasks that is not used any more.
func (s *Store) dropIndex(ctx context.Context, name string) error {
	existing, err := s.tasks.Indexes().ListSpecifications(ctx)
	if err != nil || !slices.ContainsFunc(existing, func(spec mongo.IndexSpecification) bool { return spec.Name == name }) {
		return err
	}
	return s.tasks.Indexes().DropOne(ctx, name)
}

// logsExpire is the name of the TTL index on logs.
const logsExpire = "added_expires"

// expireLogs creates or changes the TTL index of logs as the options say.
func (s *Store) expireLogs(ctx context.Context, db *mongo.Database) error {
	if s.opt.KeepLogs <= 0 {
		existing, err := s.logs.Indexes().ListSpecifications(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(existing, func(spec mongo.IndexSpecification) bool { return spec.Name == logsExpire }) {
			return nil
		}
		return s.logs.Indexes().DropOne(ctx, logsExpire)
	}
	seconds := int32(min(s.opt.KeepLogs/time.Second, 1<<31-1))
	_, err := s.logs.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: doc("added", 1), Options: options.Index().SetName(logsExpire).SetExpireAfterSeconds(seconds)})
	switch {
	case hasCode(err, codeNotImplemented):
		s.opt.Log.Info("the server has no TTL indexes: sweeps remove old logs", "err", err)
		return nil
	case hasCode(err, codeConflict): // it exists with another time
		return db.RunCommand(ctx, doc("collMod", logsName, "index", doc("name", logsExpire, "expireAfterSeconds", seconds))).Err()
	}
	return err
}

// metaDoc is the document of DownloadMeta that says to whom the database belongs.
type metaDoc struct {
	Program string `bson:"program"`
	Format  int    `bson:"format"`
}

const program = "uridownloader"

// checkFormat refuses a database of another program, or of a newer release.
func (s *Store) checkFormat(ctx context.Context, db *mongo.Database) error {
	var m metaDoc
	err := s.meta.FindOne(ctx, doc("_id", metaFormat)).Decode(&m)
	if errors.Is(err, mongo.ErrNoDocuments) {
		names, err := db.ListCollectionNames(ctx, bson.D{})
		if err != nil {
			return err
		}
		for _, c := range []*mongo.Collection{s.jobs, s.settings, s.tasks, s.data, s.logs, s.refusals, s.roles, s.files, s.chunk} {
			if !slices.Contains(names, c.Name()) {
				continue
			}
			if err := c.FindOne(ctx, bson.D{}).Err(); err == nil {
				return s.foreign("has a collection " + c.Name() + " that another program has written")
			} else if !errors.Is(err, mongo.ErrNoDocuments) {
				return err
			}
		}
		_, err = s.meta.InsertOne(ctx, doc("_id", metaFormat, "program", program, "format", format))
		if mongo.IsDuplicateKeyError(err) { // another process was first
			err = nil
		}
		return err
	}
	switch {
	case err != nil:
		return err
	case m.Program != program:
		return s.foreign(fmt.Sprintf("is of the program %q", m.Program))
	case m.Format > format:
		return fmt.Errorf("database %s: format %d: this program knows up to %d\nhint: use the newer program that wrote it", s.opt.Database, m.Format, format)
	}
	return nil
}

// foreign is the error for a database that belongs to another program.
func (s *Store) foreign(reason string) error {
	return fmt.Errorf("database %s: %s\nhint: give the downloader a database of its own: mongodb.database", s.opt.Database, reason)
}
