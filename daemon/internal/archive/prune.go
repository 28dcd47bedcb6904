package archive

import (
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// fenceKept is how long a fence keeps its number taken. A writeback that stands still, for
// example on a machine that sleeps, may still want the number.
const fenceKept = 30 * 24 * time.Hour

// prune removes the versions that are older than Options.Keep sound ones, then the files that no
// version has, and reports whether nothing is left to remove. A version is sound if all of its
// files exist and none is known to be damaged. It does no harm if it runs after the lease
// is lost: it removes only files of its own or an earlier lease, and a later writeback uses
// none of these except files of versions that this one keeps.
func (a *Archive) prune(ctx context.Context, l *lease, damaged map[string]bool) bool {
	if err := a.pruneAll(ctx, l, damaged); err != nil {
		a.opt.Log.Warn("old versions not all removed; the next writeback tries again", "filter", l.filter, "err", err)
		return false
	}
	return true
}

func (a *Archive) pruneAll(ctx context.Context, l *lease, damaged map[string]bool) error {
	used, removed, err := a.pruneVersions(ctx, l.filter, damaged)
	if err != nil {
		return err
	}
	if err := a.pruneFiles(ctx, l, used, removed); err != nil || l.tidy {
		return err
	}
	return a.pruneChunks(ctx, l, used)
}

// pruneVersions removes old documents, and returns the files of those that stay and of those that
// it removed.
func (a *Archive) pruneVersions(ctx context.Context, filter string, damaged map[string]bool) (used map[string]bool, removed []string, err error) {
	if err := a.fault("prune-versions"); err != nil {
		return nil, nil, err
	}
	docs, err := a.documents(ctx, filter)
	if err != nil {
		return nil, nil, err
	}
	whole, err := a.whole(ctx, filter)
	if err != nil {
		return nil, nil, err
	}
	sound := func(d *versionDoc) bool {
		for _, s := range d.Stripes {
			length, exists := whole[s.File]
			if s.SHA256 != nil && (!exists || length != int64(s.Length) || damaged[s.File]) {
				return false
			}
		}
		_, err := d.version()
		return err == nil
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
			for _, s := range d.Stripes {
				removed = append(removed, s.File)
			}
			continue
		}
		if d.Status == statusOn && !d.Fence {
			if sound(&d) {
				kept++
			} else {
				a.opt.Log.Warn("a version in the archive cannot be restored; it is not counted among those to keep", "filter", filter, "version", d.ID)
			}
		}
		for _, s := range d.Stripes {
			used[s.File] = true
		}
	}
	if len(old) == 0 {
		return used, nil, nil
	}
	ctx, cancel := a.bound(ctx, stripeTimes)
	defer cancel()
	_, err = a.versions.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: old}}}})
	a.opt.Log.Debug("old versions removed", "filter", filter, "versions", len(old))
	return used, removed, explain(ctx, err)
}

// pruneFiles removes the files of the filter that are not used. Of one of a version that was just
// removed the document may be lost, and the chunk left.
func (a *Archive) pruneFiles(ctx context.Context, l *lease, used map[string]bool, removed []string) error {
	if err := a.fault("prune-files"); err != nil {
		return err
	}
	ids, err := a.fileIDs(ctx, a.files, l, used)
	if err != nil {
		return err
	}
	for _, id := range removed {
		if removable(l, id, used) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
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

// whole lists the files of a filter of which both the document and the chunk exist, with their
// lengths. MongoDB reads the chunks' ids in an index.
func (a *Archive) whole(ctx context.Context, filter string) (map[string]int64, error) {
	ctx, cancel := a.bound(ctx, stripeTimes)
	defer cancel()
	chunks := map[string]bool{}
	if err := eachFile(ctx, a.chunks, filter, onlyID, func(id string, _ bson.Raw) { chunks[id] = true }); err != nil {
		return nil, err
	}
	files := map[string]int64{}
	err := eachFile(ctx, a.files, filter, bson.D{{Key: "_id", Value: 1}, {Key: "length", Value: 1}}, func(id string, doc bson.Raw) {
		if length, ok := doc.Lookup("length").AsInt64OK(); ok && chunks[id] {
			files[id] = length
		}
	})
	return files, err
}

// fileIDs lists the ids in a collection that belong to the filter, are not used, and are not
// of a later lease.
func (a *Archive) fileIDs(ctx context.Context, c *mongo.Collection, l *lease, used map[string]bool) ([]string, error) {
	ctx, cancel := a.bound(ctx, stripeTimes)
	defer cancel()
	var ids []string
	err := eachFile(ctx, c, l.filter, onlyID, func(id string, _ bson.Raw) {
		if removable(l, id, used) {
			ids = append(ids, id)
		}
	})
	return ids, err
}

var onlyID = bson.D{{Key: "_id", Value: 1}}

// eachFile visits what a collection has of the filter's files, if this package made it.
func eachFile(ctx context.Context, c *mongo.Collection, filter string, projection bson.D, visit func(id string, doc bson.Raw)) error {
	cursor, err := c.Find(ctx, filesOf(filter), options.Find().SetProjection(projection))
	if err != nil {
		return explain(ctx, err)
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		if id, ok := cursor.Current.Lookup("_id").StringValueOK(); ok {
			visit(id, cursor.Current)
		}
	}
	return explain(ctx, cursor.Err())
}

// removable tells whether a file may be removed under a lease: it is the filter's, is not used, and
// is not of a later lease.
func removable(l *lease, id string, used map[string]bool) bool {
	n, ours := leaseOf(l.filter, id)
	return ours && n <= l.n && !used[id]
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
