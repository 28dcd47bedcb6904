package archive

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

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
