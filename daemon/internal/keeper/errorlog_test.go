package keeper

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// countErrors looks into the archive's error log.
func (r *rig) countErrors() int64 {
	r.t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(r.uri))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Disconnect(context.Background())
	n, err := client.Database("urifilter").Collection("uri_filter_error_log").CountDocuments(r.t.Context(), bson.M{"filtertype_id": 1})
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}
