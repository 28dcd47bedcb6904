// Package mongodb keeps the downloader's jobs, tasks, data and logs in MongoDB, for any number of
// processes at once. It does not decide which task comes when; see package download.
//
// There are no transactions: whatever must happen together is one update of one document. The
// document of a task is the single source of truth. Its log, data and body are written before the
// task ends, under a unique mark, and count once the task names that mark. Unnamed ones are never
// read, and sweeps remove them. docs/downloadstores.md has the collections and the steps.
package mongodb

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/archive/mongoconn"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// Options say which database, and how it is used.
type Options struct {
	// URI is MongoDB's connection string; it may hold a password and is not logged.
	URI string
	// TLS makes the connections, whatever the URI says about TLS; nil: the URI decides.
	TLS *tlsdial.Dialer
	// Database holds all collections. Empty: uridownloader.
	Database string
	// Timeout bounds server selection and single operations. It is also how long a call
	// retries when the server does not answer. 0: 10 s.
	Timeout time.Duration
	// Inline is the size in bytes up to which a body, and records, are stored in the document
	// of the data; larger ones go to GridFS. 0: 256 KiB.
	Inline int
	// KeepLogs has the server remove logs that are older, with a TTL index. 0: it removes none.
	KeepLogs time.Duration
	// Log gets messages about features that the server lacks; nil: none.
	Log *slog.Logger
	// Now is the clock; nil: the server's. For tests.
	Now func() time.Time
}

// Store implements download.Store. It is safe for concurrent use.
type Store struct {
	opt   Options
	conn  *mongoconn.Conn
	clock *clock
	turns turns

	jobs, settings, tasks, data, logs   *mongo.Collection
	refusals, roles, meta, files, chunk *mongo.Collection
}

var _ download.Store = (*Store)(nil)

// Open connects to the database, and creates missing collections and indexes. The error is or
// wraps one of package mongoconn where one of them fits.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.Database = cmp.Or(o.Database, "uridownloader")
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Inline = cmp.Or(o.Inline, 256<<10)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	conn, err := mongoconn.Connect(mongoconn.Options{
		URI: o.URI, TLS: o.TLS, Database: o.Database, What: "store", AppName: "uridownloader", Timeout: o.Timeout,
	})
	if err != nil {
		return nil, err
	}
	db := conn.Database(true)
	s := &Store{
		turns: turns{next: map[int64]int{}},
		opt:   o, conn: conn, clock: &clock{fixed: o.Now, ask: conn.ServerTime, turn: make(chan struct{}, 1)},
		jobs: db.Collection(jobsName), settings: db.Collection(settingsName), tasks: db.Collection(tasksName),
		data: db.Collection(dataName), logs: db.Collection(logsName), refusals: db.Collection(refusalsName),
		roles: db.Collection(rolesName), meta: db.Collection(metaName), files: db.Collection(filesName), chunk: db.Collection(chunksName),
	}
	if err := s.prepare(ctx, db); err != nil {
		err = conn.Named(conn.ExplainOpen(ctx, err))
		conn.Cut(ctx)
		return nil, err
	}
	return s, nil
}

// closeIn is how long Close waits for the server.
const closeIn = 5 * time.Second

// Close ends the connections. Calls after it return an error.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeIn)
	defer cancel()
	return s.conn.Close(ctx)
}

// Now is the clock of the server that takes writes. The server is asked at most once a second.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	_, now, err := s.mark(ctx)
	return now.least, err
}

// Ready implements download.Store: it asks for a document of each collection.
func (s *Store) Ready(ctx context.Context) error {
	if _, err := s.Now(ctx); err != nil {
		return err
	}
	return s.retry(ctx, func(ctx context.Context, _ bool) error {
		for _, of := range []*mongo.Collection{s.jobs, s.tasks, s.data, s.logs, s.files} {
			if err := of.FindOne(ctx, doc(), options.FindOne().SetProjection(doc("_id", 1))).Err(); err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
				return err
			}
		}
		return nil
	})
}

// doc makes a document from alternating keys and values.
func doc(pairs ...any) bson.D {
	d := make(bson.D, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
}

// among is a condition on a field.
func among[T any](values []T) bson.D {
	if values == nil {
		values = []T{}
	}
	return doc("$in", values)
}

// asked is how long a reading of the server's time is used before the next one.
const asked = time.Second

// clock is the time of the server that takes writes. Between two readings it advances by the
// monotonic clock of this process, which nobody sets and which runs on while the process is
// halted. As each answer takes time, the true time is between two bounds; see moment.
type clock struct {
	fixed func() time.Time // for tests
	ask   func(context.Context) (time.Time, error)
	turn  chan struct{} // held by the goroutine that asks the server

	known         bool
	before, after time.Time // when the question was sent and answered, by our monotonic clock
	server        time.Time
}

// moment is now: the server's clock shows no less than least and no more than most. Use least to
// end what others hold, and most to grant something for a time, so that nobody gets less than was
// promised, however long the answer took.
type moment struct{ least, most time.Time }

func (c *clock) now(ctx context.Context) (moment, error) {
	if c.fixed != nil {
		at := c.fixed().UTC().Truncate(time.Millisecond)
		return moment{at, at}, nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return moment{}, ctx.Err()
	}
	if !c.known || time.Since(c.after) >= asked {
		before := time.Now()
		server, err := c.ask(ctx)
		if err != nil {
			c.known = false
			return moment{}, err
		}
		c.known, c.before, c.after, c.server = true, before, time.Now(), server
	}
	return moment{
		least: c.server.Add(time.Since(c.after)).UTC().Truncate(time.Millisecond),
		most:  c.server.Add(time.Since(c.before)).UTC().Truncate(time.Millisecond).Add(2 * time.Millisecond), // it was cut to one, too
	}, nil
}

// until returns the end of what is granted for a time.
func (m moment) until(d time.Duration) time.Time { return m.most.Add(d) }
