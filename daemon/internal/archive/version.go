package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// A document has the format of its bit-map: all formats differ only in their number, so that
// versions of urifilter that do not know such bit-maps refuse it. Fences have the first.
const (
	documentFormat = bloom.Version
	newestFormat   = bloom.VersionPairs
)

// Whether a version may be restored and merged with. An operator may switch one off.
const (
	statusOn  = "on"
	statusOff = "off"
)

// Version is one version of a filter's bit-map.
type Version struct {
	ID       string // "uri-12": the filter's name and the version's number
	Spec     engine.Spec
	Header   bloom.Header
	Created  time.Time
	Items    uint64 // estimate
	Stripes  int
	Bytes    int64  // of the bit-map
	Uploaded int64  // bytes that its writeback sent
	Owner    string // who wrote it
	On       bool   // false: switched off, neither restored nor merged with
	Dropped  bool   // a tombstone: the filter was dropped

	number  int64
	stripes []stripe
}

// versionDoc is a document of filter_bit_map. docs/archive.md describes its fields.
type versionDoc struct {
	ID         string     `bson:"_id"`
	Format     int        `bson:"format"`
	BitmapType bitmapType `bson:"bitmap_type"`
	Status     string     `bson:"status"`
	Number     int64      `bson:"number"`
	Created    time.Time  `bson:"create_datetime"`
	Owner      string     `bson:"owner"`
	Token      string     `bson:"token"`
	// Fence: no bit-map; the number is taken so that nobody else can publish it.
	Fence bool `bson:"fence,omitempty"`
	// Dropped: no bit is set, and the filter is no more. Versions of urifilter that do not know it, and
	// documents without it, have the empty filter.
	Dropped bool `bson:"dropped,omitempty"`

	Kind       string   `bson:"kind,omitempty"`
	Generation int64    `bson:"generation,omitempty"`
	Header     []byte   `bson:"header,omitempty"`
	Bytes      int64    `bson:"bytes,omitempty"`
	Items      int64    `bson:"items_estimate,omitempty"`
	Uploaded   int64    `bson:"uploaded_bytes,omitempty"`
	Stripes    []stripe `bson:"stripes,omitempty"`
	// Params are the parameters of the kind, as the spec's Stored returns them, and unknown fields.
	Params map[string]any `bson:",inline"`
}

type bitmapType struct {
	ID   int    `bson:"id"`
	Name string `bson:"name"`
}

func versionID(filter string, number int64) string { return fmt.Sprintf("%s-%d", filter, number) }

// decodeVersion reads a document. It refuses a newer format before it looks at anything else
// in the document.
func decodeVersion(raw bson.Raw) (versionDoc, error) {
	var first struct {
		ID     string `bson:"_id"`
		Format int    `bson:"format"`
	}
	if err := bson.Unmarshal(raw, &first); err != nil {
		return versionDoc{}, fmt.Errorf("%s: document %v: %w", versionsName, raw.Lookup("_id"), err)
	}
	if first.Format < documentFormat || first.Format > newestFormat {
		return versionDoc{}, &FormatError{Version: first.ID, Format: first.Format}
	}
	var d versionDoc
	if err := bson.Unmarshal(raw, &d); err != nil {
		return versionDoc{}, fmt.Errorf("version %s: %w", first.ID, err)
	}
	return d, nil
}

// version makes a Version from a document that is not a fence.
func (d *versionDoc) version() (Version, error) {
	spec, err := engine.Spec{ID: d.BitmapType.ID, Name: d.BitmapType.Name, Kind: d.Kind}.WithStored(d.Params)
	if err != nil {
		return Version{}, d.unusable(err)
	}
	v := Version{
		ID: d.ID, Spec: spec,
		Created: d.Created, Items: uint64(d.Items), Stripes: len(d.Stripes), Bytes: d.Bytes,
		Uploaded: d.Uploaded, Owner: d.Owner, On: d.Status == statusOn, Dropped: d.Dropped,
		number: d.Number, stripes: d.Stripes,
	}
	if err := v.Header.UnmarshalBinary(d.Header); err != nil {
		return Version{}, d.unusable(err)
	}
	if d.Format != int(v.Header.Version()) {
		return Version{}, d.unusable(fmt.Errorf("%w: format %d, and a bit-map of format %d", bloom.ErrCorrupt, d.Format, v.Header.Version()))
	}
	if len(d.Stripes) != v.Header.Stripes() {
		return Version{}, d.unusable(fmt.Errorf("%w: %d stripes, its header says %d", bloom.ErrCorrupt, len(d.Stripes), v.Header.Stripes()))
	}
	for i, s := range d.Stripes {
		if s.Length != v.Header.StripeSize(i) {
			return Version{}, d.unusable(fmt.Errorf("%w: stripe %d of %d bytes, want %d", bloom.ErrCorrupt, i, s.Length, v.Header.StripeSize(i)))
		}
	}
	return v, nil
}

func (d *versionDoc) unusable(err error) error {
	return fmt.Errorf("version %s: %w\nhint: to go on without it: %s", d.ID, err, switchOff(fmt.Sprintf(`{_id: %q}`, d.ID)))
}

// newestFirst sorts by number.
func newestFirst() bson.D { return bson.D{{Key: "number", Value: -1}} }

// Latest returns the newest version, of the filter of that name, that is switched on. If there
// is none, the error wraps ErrNone. If the newest version has a newer format, the error is a
// *FormatError: Latest does not return an older version instead.
func (a *Archive) Latest(ctx context.Context, filter string) (Version, error) {
	v, err := a.latest(ctx, filter)
	return v, a.named(err)
}

func (a *Archive) latest(ctx context.Context, filter string) (Version, error) {
	ctx, cancel := a.bound(ctx, 1)
	defer cancel()
	which := bson.D{{Key: "bitmap_type.name", Value: filter}, {Key: "status", Value: statusOn}}
	raw, err := a.versions.FindOne(ctx, which, options.FindOne().SetSort(newestFirst())).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Version{}, fmt.Errorf("filter %s: %w", filter, ErrNone)
	}
	if err != nil {
		return Version{}, explain(ctx, err)
	}
	v, _, err := readVersion(raw) // fences are off
	return v, err
}

// readVersion makes a Version from a document, or says that it is a fence.
func readVersion(raw bson.Raw) (v Version, fence bool, err error) {
	d, err := decodeVersion(raw)
	if err != nil || d.Fence {
		return Version{}, d.Fence, err
	}
	v, err = d.version()
	return v, false, err
}

// SwitchOff takes a version out of use: it is neither restored nor merged with. A version that was removed is no
// error.
func (a *Archive) SwitchOff(ctx context.Context, v Version) error {
	bounded, cancel := a.bound(ctx, 1)
	defer cancel()
	_, err := a.versions.UpdateOne(bounded, bson.D{{Key: "_id", Value: v.ID}}, bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: statusOff}}}})
	if err != nil {
		return a.named(explain(bounded, err))
	}
	a.opt.Log.Info("version in the archive switched off: its filter was dropped, and made again since", "filter", v.Spec.Name, "version", v.ID)
	return nil
}

// Versions lists the versions of the filter of that name, or of all filters for "", newest
// first, including those that are switched off. The versions of all filters are listed filter
// by filter. The error joins why versions that are switched on cannot be used; the others are listed.
func (a *Archive) Versions(ctx context.Context, filter string) (all []Version, err error) {
	var bad []error
	err = a.eachDocument(ctx, filter, func(raw bson.Raw) error {
		v, fence, err := readVersion(raw)
		if status, _ := raw.Lookup("status").StringValueOK(); err != nil && status == statusOn { // otherwise presumably switched off for this reason
			bad = append(bad, a.named(err))
		}
		if err == nil && !fence {
			all = append(all, v)
		}
		return nil
	})
	return all, errors.Join(append(bad, a.named(err))...)
}

// Newest returns, for each filter, the newest version that is switched on. Of a filter whose newest version cannot
// be used it returns the reason in bad, by the filter's name: as in Latest, no older version takes its place, and
// the other filters have nothing to do with it.
func (a *Archive) Newest(ctx context.Context) (all []Version, bad map[string]error, err error) {
	seen := map[string]bool{}
	bad = map[string]error{}
	err = a.eachDocument(ctx, "", func(raw bson.Raw) error {
		name, _ := raw.Lookup("bitmap_type", "name").StringValueOK()
		status, _ := raw.Lookup("status").StringValueOK()
		if name != "" && (seen[name] || status != statusOn) {
			return nil
		}
		seen[name] = true
		v, _, err := readVersion(raw)
		switch {
		case err == nil:
			all = append(all, v)
		case name == "":
			return err
		default:
			bad[name] = a.named(err)
		}
		return nil
	})
	return all, bad, a.named(err)
}

// documents returns those of a filter, or of all for "", newest first, including fences.
func (a *Archive) documents(ctx context.Context, filter string) (docs []versionDoc, err error) {
	return docs, a.eachDocument(ctx, filter, func(raw bson.Raw) error {
		d, err := decodeVersion(raw)
		docs = append(docs, d)
		return err
	})
}

// eachDocument visits the documents of a filter, or of all for "", newest first, including fences.
func (a *Archive) eachDocument(ctx context.Context, filter string, visit func(raw bson.Raw) error) error {
	ctx, cancel := a.bound(ctx, stripeTimes)
	defer cancel()
	which := bson.D{}
	if filter != "" {
		which = bson.D{{Key: "bitmap_type.name", Value: filter}}
	}
	order := bson.D{{Key: "bitmap_type.name", Value: 1}, {Key: "number", Value: -1}}
	cursor, err := a.versions.Find(ctx, which, options.Find().SetSort(order))
	if err != nil {
		return explain(ctx, err)
	}
	defer cursor.Close(ctx)
	for cursor.Next(ctx) {
		if err := visit(cursor.Current); err != nil {
			return err
		}
	}
	return explain(ctx, cursor.Err())
}

// highestNumber returns the highest number of the filter's documents, or 0 if there are none.
func (a *Archive) highestNumber(ctx context.Context, filter string) (int64, error) {
	ctx, cancel := a.bound(ctx, 1)
	defer cancel()
	var d struct {
		Number int64 `bson:"number"`
	}
	err := a.versions.FindOne(ctx, bson.D{{Key: "bitmap_type.name", Value: filter}},
		options.FindOne().SetSort(newestFirst()).SetProjection(bson.D{{Key: "number", Value: 1}})).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, nil
	}
	return d.Number, explain(ctx, err)
}
