package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/archive/mongoconn"
)

// Errors for callers that branch on the cause.
var (
	// ErrNone: the archive has no version of that filter.
	ErrNone = errors.New("no version in the archive")
	// ErrRemoved: the version was old, and was removed while it was read.
	ErrRemoved = errors.New("was removed meanwhile")
	// These concern the connection; see package mongoconn.
	ErrUnreachable = mongoconn.ErrUnreachable
	ErrCredentials = mongoconn.ErrCredentials
	ErrNotMongoDB  = mongoconn.ErrNotMongoDB
	ErrRights      = mongoconn.ErrRights
)

// LeaseError is returned while another writeback of the same filter is under way.
type LeaseError struct {
	Filter string
	Owner  string    // host:pid, as it calls itself
	Until  time.Time // when the lease ends unless it is renewed, by the server's clock
}

func (e *LeaseError) Error() string {
	return fmt.Sprintf("filter %s: is being written back by %s, whose lease ends %s unless renewed", e.Filter, e.Owner, e.Until.UTC().Format(time.RFC3339))
}

// OvertakenError is returned by a writeback whose lease ran out, or whose version's
// number was taken, while it was under way. The archive is as the other writeback left it;
// a further writeback adds what this one wanted to add.
type OvertakenError struct{ Filter string }

func (e *OvertakenError) Error() string {
	return fmt.Sprintf("filter %s: another writeback took over; nothing was changed\nhint: write back again", e.Filter)
}

// MismatchError is returned when bits of different bit-maps would have been mixed.
type MismatchError struct {
	Filter  string
	Version string // in the archive
	Reason  string
	Hint    string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("filter %s: version %s: %s\nhint: %s", e.Filter, e.Version, e.Reason, e.Hint)
}

// DamageError is returned for a stripe of a version whose bytes are not those that were archived.
type DamageError struct {
	Filter  string
	Version string
	Stripe  int
	Reason  string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("filter %s: version %s: stripe %d: %s\nhint: `urifilter bitmap restore --version OLDER %s` takes an older version, `urifilter bitmap list` shows them; to write back without this one: %s",
		e.Filter, e.Version, e.Stripe, e.Reason, e.Filter, switchOff(fmt.Sprintf(`{_id: %q}`, e.Version)))
}

// FormatError is returned for a version that a newer urifilter wrote.
type FormatError struct {
	Version string
	Format  int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("version %s: format %d: this urifilter reads the formats %d to %d\nhint: use the newer urifilter that wrote it", e.Version, e.Format, documentFormat, newestFormat)
}

// switchOff returns the mongosh command that takes versions out of use.
func switchOff(which string) string {
	return fmt.Sprintf(`db.%s.updateMany(%s, {$set: {status: "off"}})`, versionsName, which)
}

// How many errors are kept: the newest 1,000, and for a while up to a tenth more, so that not
// every new error costs a search for the oldest.
const (
	errorsKept   = 1000
	errorsSlack  = errorsKept / 10
	reasonLength = 2000 // bytes
)

// errorDoc is a document of uri_filter_error_log.
type errorDoc struct {
	ID     bson.ObjectID `bson:"_id"`
	Reason string        `bson:"failed_reason"`
	Filter int           `bson:"filtertype_id"`
	At     time.Time     `bson:"err_datetime"`
	Owner  string        `bson:"owner"`
}

// RecordError stores an error of a filter beside the bit-maps, for people who look into the
// database. The reason is cut to 2,000 bytes.
func (a *Archive) RecordError(ctx context.Context, filterID int, reason string) error {
	ctx, cancel := a.bound(ctx, 1)
	defer cancel()
	if len(reason) > reasonLength {
		reason = reason[:reasonLength]
	}
	d := errorDoc{
		ID: bson.NewObjectID(), Reason: strings.ToValidUTF8(reason, ""), Filter: filterID,
		At: time.Now().UTC(), Owner: a.opt.Owner,
	}
	if _, err := a.errors.InsertOne(ctx, d); err != nil {
		return a.named(explain(ctx, err))
	}
	return a.named(explain(ctx, a.trimErrors(ctx)))
}

func (a *Archive) trimErrors(ctx context.Context) error {
	n, err := a.errors.EstimatedDocumentCount(ctx)
	if err != nil || n <= errorsKept+errorsSlack {
		return err
	}
	// An _id begins with the second in which it was made.
	var oldest errorDoc
	err = a.errors.FindOne(ctx, bson.D{}, options.FindOne().SetSort(bson.D{{Key: "_id", Value: -1}}).SetSkip(errorsKept)).Decode(&oldest)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = a.errors.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$lte", Value: oldest.ID}}}})
	return err
}
