package archive

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// fenceKept is how long a fence keeps its number taken. A writeback that stands still, for
// example on a machine that sleeps, may still want the number.
const fenceKept = 30 * 24 * time.Hour

// prune removes the versions beyond Options.Keep, then the files that no version has,
// and reports whether nothing is left to remove. It does no harm if it runs after the lease
// is lost: it removes only files of its own or an earlier lease, and a later writeback uses
// none of these except files of versions that this one keeps.
func (a *Archive) prune(ctx context.Context, l *lease) bool {
	if err := a.pruneAll(ctx, l); err != nil {
		a.opt.Log.Warn("old versions not all removed; the next writeback tries again", "filter", l.filter, "err", err)
		return false
	}
	return true
}

func (a *Archive) pruneAll(ctx context.Context, l *lease) error {
	used, err := a.pruneVersions(ctx, l.filter)
	if err != nil {
		return err
	}
	if err := a.pruneFiles(ctx, l, used); err != nil || l.tidy {
		return err
	}
	return a.pruneChunks(ctx, l, used)
}

// pruneVersions removes old documents and returns the files of those that stay.
func (a *Archive) pruneVersions(ctx context.Context, filter string) (used map[string]bool, err error) {
	if err := a.fault("prune-versions"); err != nil {
		return nil, err
	}
	docs, err := a.documents(ctx, filter)
	if err != nil {
		return nil, err
	}
	var old bson.A
	used = map[string]bool{}
	kept := 0
	for _, d := range docs { // newest first
		switch {
		case d.Fence && time.Since(d.Created) < fenceKept:
			continue
		case kept >= a.opt.Keep:
			old = append(old, d.ID)
			continue
		}
		if d.Status == statusOn {
			kept++
		}
		for _, s := range d.Stripes {
			used[s.File] = true
		}
	}
	if len(old) == 0 {
		return used, nil
	}
	ctx, cancel := a.bound(ctx, stripeTimes)
	defer cancel()
	_, err = a.versions.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: old}}}})
	a.opt.Log.Debug("old versions removed", "filter", filter, "versions", len(old))
	return used, explain(ctx, err)
}

// pruneFiles removes the files of the filter that are not used.
func (a *Archive) pruneFiles(ctx context.Context, l *lease, used map[string]bool) error {
	if err := a.fault("prune-files"); err != nil {
		return err
	}
	ids, err := a.fileIDs(ctx, a.files, l, used)
	if err != nil {
		return err
	}
	// The chunks first: the next writeback finds a file without a chunk, but only a
	// writeback that looks for chunks finds a chunk without a file.
	if err := a.deleteEach(ctx, a.chunks, ids); err != nil {
		return err
	}
	return a.deleteEach(ctx, a.files, ids)
}

// pruneChunks removes chunks without a file. A writeback that ends in the middle of an upload
// leaves them. It looks at the ids of all chunks of the filter, on MongoDB in an index.
func (a *Archive) pruneChunks(ctx context.Context, l *lease, used map[string]bool) error {
	if err := a.fault("prune-chunks"); err != nil {
		return err
	}
	ids, err := a.fileIDs(ctx, a.chunks, l, used)
	if err != nil {
		return err
	}
	return a.deleteEach(ctx, a.chunks, ids)
}

// fileIDs lists the ids in a collection that belong to the filter, are not used, and are not
// of a later lease.
func (a *Archive) fileIDs(ctx context.Context, c *mongo.Collection, l *lease, used map[string]bool) ([]string, error) {
	ctx, cancel := a.bound(ctx, stripeTimes)
	defer cancel()
	only := options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}})
	cursor, err := c.Find(ctx, filesOf(l.filter), only)
	if err != nil {
		return nil, explain(ctx, err)
	}
	defer cursor.Close(ctx)
	var ids []string
	for cursor.Next(ctx) {
		id, ok := cursor.Current.Lookup("_id").StringValueOK()
		if !ok {
			continue // not made by this package
		}
		n, ours := leaseOf(l.filter, id)
		if ours && n <= l.n && !used[id] {
			ids = append(ids, id)
		}
	}
	return ids, explain(ctx, cursor.Err())
}

// deleteEach deletes the documents one by one, because not every server finds a list of ids by
// index.
func (a *Archive) deleteEach(ctx context.Context, c *mongo.Collection, ids []string) error {
	for _, id := range ids {
		bounded, cancel := a.bound(ctx, 1)
		_, err := c.DeleteOne(bounded, bson.D{{Key: "_id", Value: id}})
		err = explain(bounded, err)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
