package archive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Source provides a bit-map. An engine.Set is one.
type Source interface {
	Header() bloom.Header
	// Stripe copies stripe i into buf and returns it cut to length.
	Stripe(ctx context.Context, i int, buf []byte) ([]byte, error)
}

// Progress is called after each stripe with the number of stripes that are done.
type Progress func(stripe, of int)

// Writeback adds a version: the bits of src, and those of the newest version if that is of
// the same generation. Only stripes that differ from the newest version's are sent, and those
// whose files are lost or damaged. On a nil error the version can be restored, as far as the
// server's majority guarantees it. Writeback then removes the versions that are older than
// Options.Keep sound ones, and what dead writebacks left; if that fails, it only logs the error.
//
// A *LeaseError means that another writeback of the same filter is under way, a *MismatchError
// that the newest version is of another bit-map, a *DamageError that it cannot be read. On an
// error the archive's newest version is the same as before, unless the answer to the last step
// was lost: then it is either the old or the new version.
func (a *Archive) Writeback(ctx context.Context, spec engine.Spec, src Source, p Progress) (Version, error) {
	return a.write(ctx, spec, src, false, p)
}

// LeaveTombstone is the Writeback of a bit-map with nothing in it, which takes no space. dropped marks
// the version as that of a filter that is no more.
func (a *Archive) LeaveTombstone(ctx context.Context, spec engine.Spec, h bloom.Header, dropped bool) error {
	_, err := a.write(ctx, spec, zeroes{h}, dropped, nil)
	return err
}

// zeroes is a bit-map with nothing in it.
type zeroes struct{ h bloom.Header }

func (z zeroes) Header() bloom.Header { return z.h }

func (z zeroes) Stripe(_ context.Context, i int, buf []byte) ([]byte, error) {
	buf = buf[:z.h.StripeSize(i)]
	clear(buf)
	return buf, nil
}

func (a *Archive) write(ctx context.Context, spec engine.Spec, src Source, dropped bool, p Progress) (Version, error) {
	l, err := a.acquire(ctx, spec.Name)
	if err != nil {
		return Version{}, a.named(err)
	}
	work, stop := l.hold(ctx)
	w := &writeback{
		a: a, lease: l, spec: spec, src: src, header: src.Header(), dropped: dropped, token: newToken(),
		buf: make([]byte, bloom.StripeBytes), damaged: map[string]bool{},
	}
	v, err := w.run(work, p)
	tidy := l.tidy && !w.touched
	if err == nil {
		tidy = a.prune(work, l, w.damaged)
	}
	if err != nil && ctx.Err() == nil {
		err = l.blame(ctx, work, err)
	}
	stop()
	if releaseErr := l.release(ctx, tidy); releaseErr != nil {
		a.opt.Log.Warn("lease not released; it will run out", "filter", spec.Name, "err", releaseErr)
	}
	return v, a.named(err)
}

// writeback is a writeback that is under way.
type writeback struct {
	a        *Archive
	lease    *lease
	spec     engine.Spec
	src      Source
	header   bloom.Header
	dropped  bool
	token    string
	base     *Version         // to merge with; nil: none
	whole    map[string]int64 // the filter's files when base was read: see Archive.whole
	damaged  map[string]bool  // files of base that were found lost or damaged
	touched  bool             // something may have been left in the archive
	uploaded int64
	ones     [bloom.MaxLayers]uint64 // bits set in each layer, of the stripes done
	buf      []byte                  // for a stripe of src
}

func (w *writeback) run(ctx context.Context, p Progress) (Version, error) {
	number, err := w.look(ctx)
	if err != nil {
		return Version{}, err
	}
	if !w.lease.tidy {
		if err := w.lease.fence(ctx, w.token); err != nil {
			return Version{}, err
		}
		if number, err = w.look(ctx); err != nil {
			return Version{}, err
		}
	}
	doc := w.document(number)
	for i := range w.header.Stripes() {
		s, err := w.stripe(ctx, i)
		if err != nil {
			return Version{}, err
		}
		doc.Stripes = append(doc.Stripes, s)
		if p != nil {
			p(i+1, w.header.Stripes())
		}
	}
	if !w.src.Header().SameBits(w.header) {
		return Version{}, fmt.Errorf("filter %s: was emptied while it was written back; nothing was changed\nhint: write back again", w.spec.Name)
	}
	doc.Items, doc.Uploaded = w.items(), w.uploaded
	if err := w.publish(ctx, doc); err != nil {
		return Version{}, err
	}
	w.a.opt.Log.Info("bit-map written back", "filter", w.spec.Name, "version", doc.ID, "generation", w.header.Generation, "uploaded_bytes", w.uploaded)
	return doc.version()
}

// look finds the number of the new version, and the version to merge with. It reads the number
// first: if another version is added in between, the number is taken, and publish fails. It
// checks the lease after the number, as fence requires.
func (w *writeback) look(ctx context.Context) (number int64, err error) {
	if err := w.a.fault("latest"); err != nil {
		return 0, err
	}
	w.base = nil
	highest, err := w.a.highestNumber(ctx, w.spec.Name)
	if err != nil {
		return 0, err
	}
	if err := w.lease.current(ctx); err != nil {
		return 0, err
	}
	base, err := w.a.latest(ctx, w.spec.Name)
	switch {
	case errors.Is(err, ErrNone):
		return highest + 1, nil
	case err != nil:
		return 0, err
	case base.Header.Generation < w.header.Generation:
		return highest + 1, nil // bits of two generations never mix
	case !base.Header.SameBits(w.header):
		return 0, w.mismatch(&base)
	}
	if w.whole, err = w.a.whole(ctx, w.spec.Name); err != nil {
		return 0, err
	}
	w.base = &base
	w.header.Layers = max(w.header.Layers, base.Header.Layers)
	return highest + 1, nil
}

func (w *writeback) mismatch(base *Version) error {
	e := &MismatchError{Filter: w.spec.Name, Version: base.ID}
	if base.Dropped {
		e.Reason = "says that the filter was dropped, by another daemon or by a drop that broke off"
		e.Hint = fmt.Sprintf("drop it again; or, to keep it: %s", switchOff(fmt.Sprintf(`{"bitmap_type.name": %q}`, w.spec.Name)))
		return e
	}
	e.Reason = differs(base.Header, w.header)
	e.Hint = fmt.Sprintf("to go on with the archive's bit-map: drop the filter, then `urifilter bitmap restore %s`; to go on with this one: %s",
		w.spec.Name, switchOff(fmt.Sprintf(`{"bitmap_type.name": %q}`, w.spec.Name)))
	return e
}

// differs says in what two bit-maps differ. It does not show their seeds, which are secret.
func differs(archived, here bloom.Header) string {
	switch {
	case archived.Generation != here.Generation:
		return fmt.Sprintf("is of generation %d, the bit-map here of %d", archived.Generation, here.Generation)
	case archived.Layers > 0 != (here.Layers > 0):
		return fmt.Sprintf("is of %s, the bit-map here of %s", sizeOf(archived), sizeOf(here))
	case archived.Blocks != here.Blocks:
		return fmt.Sprintf("is of capacity %d and error rate %v, the bit-map here of %d and %v",
			archived.Capacity, archived.ErrorRate, here.Capacity, here.ErrorRate)
	default:
		return "is of another filter with the same name, which hashes with another seed"
	}
}

func sizeOf(h bloom.Header) string {
	if h.Layers > 0 {
		return "a filter that grows"
	}
	return "one of fixed size"
}

func (w *writeback) document(number int64) *versionDoc {
	header, _ := w.header.MarshalBinary() // its error is always nil
	params := map[string]any{}
	for _, m := range w.spec.Stored() {
		params[m.Key] = m.Value
	}
	return &versionDoc{
		ID: versionID(w.spec.Name, number), Format: int(w.header.Version()),
		BitmapType: bitmapType{ID: w.spec.ID, Name: w.spec.Name},
		Status:     statusOn, Number: number, Created: time.Now().UTC().Truncate(time.Millisecond),
		Owner: w.a.opt.Owner, Token: w.token,
		Kind: w.spec.Kind, Params: params, Dropped: w.dropped,
		Generation: int64(w.header.Generation), Header: header, Bytes: int64(w.header.Bytes()),
	}
}

// stripe makes stripe i of the new version in one of four ways: the stripe is unchanged, and its
// file is sound; it has no bit; the old stripe has all bits of ours; or the bits of both are
// uploaded.
func (w *writeback) stripe(ctx context.Context, i int) (stripe, error) {
	if err := ctx.Err(); err != nil {
		return stripe{}, err
	}
	ours, err := w.sourceStripe(ctx, i)
	if err != nil {
		return stripe{}, err
	}
	s := describe(ours)
	if w.base != nil && i < len(w.base.stripes) {
		old := w.base.stripes[i]
		same := s.same(old)
		if same {
			sound, err := w.sound(ctx, i)
			if err != nil {
				return stripe{}, err
			}
			if sound {
				w.count(i, ours)
				return old, nil
			}
		}
		if !same && !old.empty() {
			if err := w.a.fault("download"); err != nil {
				return stripe{}, err
			}
			theirs, err := w.a.fetchOf(ctx, w.base, i)
			if err != nil {
				return stripe{}, err
			}
			or(ours, theirs)
			if s = describe(ours); s.same(old) {
				w.count(i, ours)
				return old, nil
			}
		}
	}
	w.count(i, ours)
	if s.SHA256 == nil {
		return s, nil
	}
	s.File = fileID(w.spec.Name, w.lease.n, w.token, i)
	if w.uploaded == 0 {
		if err := w.a.index(ctx); err != nil {
			return stripe{}, err
		}
	}
	w.uploaded += int64(len(ours))
	w.touched = true
	return s, w.a.upload(ctx, w.spec.Name, s, ours)
}

// maxReadBack is how many of the stripes that it reuses a writeback reads back: 64 MiB. Of a
// larger bit-map each writeback reads others.
const maxReadBack = 16

// sound tells whether stripe i of the newest version can be used again. Its document says what
// was archived, not what is there now: the file must exist, and is read back when it is its turn.
func (w *writeback) sound(ctx context.Context, i int) (bool, error) {
	old := w.base.stripes[i]
	if old.SHA256 == nil {
		return true, nil // no bit, no file
	}
	reason := "is missing"
	if length, ok := w.whole[old.File]; ok && length == int64(old.Length) {
		if !w.turn(i) {
			return true, nil
		}
		if err := w.a.fault("read-back"); err != nil {
			return false, err
		}
		data, err := w.a.fetchOf(ctx, w.base, i)
		var damage *DamageError
		switch {
		case errors.As(err, &damage):
			reason = damage.Reason
		case err != nil:
			return false, err
		case describe(data).same(old):
			return true, nil
		default:
			reason = "has another SHA-256"
		}
	}
	w.damaged[old.File] = true
	w.a.opt.Log.Warn("a stripe in the archive is lost or damaged; it is sent again", "filter", w.spec.Name, "version", w.base.ID, "stripe", i, "file", old.File, "reason", reason)
	return false, nil
}

// turn tells whether a writeback with the number after base's reads stripe i back.
func (w *writeback) turn(i int) bool {
	stripes := len(w.base.stripes)
	first := int(w.base.number * maxReadBack % int64(stripes))
	return (i-first+stripes)%stripes < maxReadBack
}

// sourceStripe returns stripe i of the source, or zeroes if only the newest version has its layer.
func (w *writeback) sourceStripe(ctx context.Context, i int) ([]byte, error) {
	if i >= w.src.Header().Stripes() {
		ours := w.buf[:w.header.StripeSize(i)]
		clear(ours)
		return ours, nil
	}
	return w.src.Stripe(ctx, i, w.buf)
}

// count adds the bits of stripe i, whose length is a multiple of a block's.
func (w *writeback) count(i int, data []byte) {
	layer, _ := w.header.StripeOf(i)
	for ; len(data) >= 8; data = data[8:] {
		w.ones[layer] += uint64(bits.OnesCount64(binary.LittleEndian.Uint64(data)))
	}
}

// items estimates how many items the new version has.
func (w *writeback) items() int64 {
	if w.header.Layers == 0 {
		return int64(w.header.Fill(w.ones[0]).Items)
	}
	all := int64(0)
	for i := range int(w.header.Layers) {
		all += int64(w.header.Layer(i).Fill(w.ones[i]).Items)
	}
	return all
}

// publish makes the version visible in one step: readers use the newest number that is on.
func (w *writeback) publish(ctx context.Context, doc *versionDoc) error {
	if err := w.a.fault("switch"); err != nil {
		return err
	}
	w.touched = true
	err := w.a.insertVersion(ctx, doc)
	if mongo.IsDuplicateKeyError(err) {
		return &OvertakenError{Filter: w.spec.Name}
	}
	if err != nil {
		return err
	}
	return w.a.fault("switched")
}

// insertVersion inserts a document, or returns a duplicate-key error if its number is taken. If
// the answer is lost, it checks whether the document exists.
func (a *Archive) insertVersion(ctx context.Context, d *versionDoc) error {
	bounded, cancel := a.bound(ctx, 1)
	_, err := a.versions.InsertOne(bounded, d)
	explained := explain(bounded, err)
	cancel()
	if err == nil {
		return nil
	}
	bounded, cancel = a.bound(context.WithoutCancel(ctx), 1)
	defer cancel()
	var there versionDoc
	look := a.versions.FindOne(bounded, bson.D{{Key: "_id", Value: d.ID}}).Decode(&there)
	switch {
	case look == nil && there.Token == d.Token:
		return nil
	case mongo.IsDuplicateKeyError(err):
		return err
	}
	return explained
}
