package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/archive/mongoconn"
	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// What is where in the database.
const (
	versionsName = "filter_bit_map"       // one document a version
	leasesName   = "filter_bit_map_lease" // who writes back
	errorsName   = "uri_filter_error_log" // what went wrong
	filesName    = "bitmap.files"         // GridFS bucket: the stripes
	chunksName   = "bitmap.chunks"
)

// Options say which archive, and how it is used.
type Options struct {
	// URI is MongoDB's connection string; it may hold a password and is not logged.
	URI string
	// TLS makes the connections, whatever the URI says of TLS; nil: the URI decides.
	TLS *tlsdial.Dialer
	// Database holds all collections. Empty: urifilter.
	Database string
	// Keep is how many versions of a filter stay. Less than 1: 1.
	Keep int
	// Owner names this process in leases. Empty: host:pid.
	Owner string
	// Log gets what changes; nil: nothing does.
	Log *slog.Logger
	// Timeout bounds the choice of a server, and single operations; one that moves a
	// stripe has six times as long. 0: 10 s.
	Timeout time.Duration
	// Lease is after how long a writeback without a heartbeat may be taken
	// over. 0: 1 minute.
	Lease time.Duration
	// Fault is called before each step of a writeback with its name, and after two of
	// them; an error ends the writeback there. The names: lease, latest, fence,
	// read-back, download, upload, file, uploaded, verify, switch, switched, prune-versions,
	// prune-files, prune-chunks, release; and renew, of the lease, whose error is that
	// of the renewal. For tests; nil otherwise.
	Fault func(label string) error
}

// Archive is a connection to one archive. It is safe for concurrent use.
type Archive struct {
	opt      Options
	conn     *mongoconn.Conn
	versions *mongo.Collection
	leases   *mongo.Collection
	errors   *mongo.Collection
	files    *mongo.Collection
	chunks   *mongo.Collection

	mu    sync.Mutex
	ended map[string]ended // by filter
}

// Open connects to the archive and sees that it answers and that this user may read
// and write there. The error is, or wraps, ErrUnreachable, ErrCredentials,
// ErrNotMongoDB or ErrRights where it is one of these.
func Open(ctx context.Context, o Options) (*Archive, error) {
	o.Database = cmp.Or(o.Database, "urifilter")
	o.Keep = max(o.Keep, 1)
	o.Owner = cmp.Or(o.Owner, thisProcess())
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Lease = cmp.Or(o.Lease, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	conn, err := mongoconn.Connect(mongoconn.Options{URI: o.URI, TLS: o.TLS, Database: o.Database, What: "archive", AppName: "urifilter", Timeout: o.Timeout})
	if err != nil {
		return nil, err
	}
	a := newArchive(o, conn)
	if err := a.probe(ctx); err != nil {
		err = a.named(conn.ExplainOpen(ctx, err))
		conn.Cut(ctx)
		return nil, err
	}
	return a, nil
}

func newArchive(o Options, conn *mongoconn.Conn) *Archive {
	db := conn.Database(false)
	return &Archive{
		opt:      o,
		conn:     conn,
		versions: db.Collection(versionsName),
		leases:   db.Collection(leasesName),
		errors:   db.Collection(errorsName),
		files:    db.Collection(filesName),
		chunks:   db.Collection(chunksName),
		ended:    map[string]ended{},
	}
}

// Connected tells whether a server that takes writes is known, without asking one: the driver
// looks at all of them every ten seconds, and when a call fails.
func (a *Archive) Connected() bool { return a.conn.Connected() }

func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// probe finds out whether this user may read and write, without changing anything.
func (a *Archive) probe(ctx context.Context) error {
	ctx, cancel := a.bound(ctx, 1)
	defer cancel()
	err := a.versions.FindOne(ctx, bson.D{}, options.FindOne().SetProjection(bson.D{{Key: "_id", Value: 1}})).Err()
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		return err
	}
	_, err = a.leases.DeleteOne(ctx, bson.D{{Key: "_id", Value: "there is none of this name"}})
	return err
}

// Close ends the connection. Nothing may be under way. When ctx ends the server is not
// waited for any more.
func (a *Archive) Close(ctx context.Context) error {
	return a.conn.Close(ctx)
}

// Ping tells whether the archive answers, in no more than Options.Timeout.
func (a *Archive) Ping(ctx context.Context) error {
	_, err := a.serverTime(ctx)
	return a.named(err)
}

// serverTime is the server's clock, by which leases run, so that the clocks of the
// daemons need not agree.
func (a *Archive) serverTime(ctx context.Context) (time.Time, error) { return a.conn.ServerTime(ctx) }

// explain gives the driver's errors the names of this package.
func explain(ctx context.Context, err error) error { return mongoconn.Explain(ctx, err) }

// bound limits an operation to some times Options.Timeout.
func (a *Archive) bound(ctx context.Context, times int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(times)*a.opt.Timeout)
}

// stripeTimes is how much longer than another an operation may take that moves a stripe.
const stripeTimes = 6

// named puts before an error which archive it is of.
func (a *Archive) named(err error) error { return a.conn.Named(err) }

func (a *Archive) fault(label string) error {
	if a.opt.Fault == nil {
		return nil
	}
	return a.opt.Fault(label)
}
