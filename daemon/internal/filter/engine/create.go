package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// firstFreeID is the first id of filters made at run time, so that the small ids remain
// available for settings.
const firstFreeID = 1000

// Create makes a filter, or finds an existing one with the same parameters (created is
// then false). It restores any archived version. An ID of 0 takes the id of the existing
// or archived filter, or else the next free one. It returns a *SpecError for an invalid
// spec, ErrConflict if another filter has the name or id, a *RestoringError if the
// archive must be asked but cannot be reached, and a *QuarantinedError for a filter in
// quarantine.
func (e *Engine) Create(ctx context.Context, spec Spec) (f *Filter, created bool, err error) {
	return e.create(ctx, spec, newIdentity(1), false)
}

// CreateWith is Create for a filter that hashes items with a seed of another one, so that the two
// can be merged. It returns a *UnlikeError if there is a filter that hashes with another seed.
func (e *Engine) CreateWith(ctx context.Context, spec Spec, seed uint64) (f *Filter, created bool, err error) {
	b := newIdentity(1)
	b.Seed = seed
	return e.createWith(ctx, spec, b)
}

func (e *Engine) createWith(ctx context.Context, spec Spec, b Identity) (f *Filter, created bool, err error) {
	f, created, err = e.create(ctx, spec, b, true)
	if err == nil && f.Seed() != b.Seed {
		return nil, false, &UnlikeError{Filter: f.Name, Reason: otherSeed}
	}
	return f, created, err
}

// CreateLike is CreateWith the seed, and the format, of another filter, which must be of the same kind.
func (e *Engine) CreateLike(ctx context.Context, spec Spec, like *Filter) (f *Filter, created bool, err error) {
	if err := like.sameItems(spec, like.Seed()); err != nil {
		return nil, false, err
	}
	b := newIdentity(1)
	b.Seed = like.Seed()
	if bits, ok := like.Set.(BitMap); ok {
		h := bits.Header()
		b.Format = &h
	}
	return e.createWith(ctx, spec, b)
}

// create makes or finds a filter. seeded: what is restored must hash with the seed of b.
func (e *Engine) create(ctx context.Context, spec Spec, b Identity, seeded bool) (f *Filter, created bool, err error) {
	if err := validate(spec); err != nil {
		return nil, false, err
	}
	if err := e.mayCreate(spec.Name); err != nil {
		return nil, false, err
	}
	ctx, end, err := e.begin(ctx, spec.Name)
	if err != nil {
		return nil, false, err
	}
	defer end()
	if f, err := e.existing(&spec); err != nil {
		return nil, false, err
	} else if f != nil {
		if gone, err := e.goneElsewhere(ctx, f); err != nil || !gone {
			return f, false, err
		}
		e.mu.Lock()
		e.remove(f)
		e.mu.Unlock()
	}
	var a *Archived
	if spec.HasBitMap() {
		a, err = e.archived(ctx, spec.Name)
		if err != nil && e.startEmpty {
			e.log.Warn("the archive cannot be asked, and the settings say not to wait for it", "filter", spec.Name, "err", err)
		} else if err != nil {
			return nil, false, err
		}
	}
	if a == nil {
		f, err = e.makeEmpty(ctx, spec, b)
		return f, err == nil, err
	}
	if spec.ID == 0 {
		if other := e.takeID(a.Spec.ID, spec.Name); other == "" {
			spec.ID = a.Spec.ID
		} else if a.Items > 0 {
			return nil, false, fmt.Errorf("filter %s: is in the archive with the id %d, which is that of %s: %w", spec.Name, a.Spec.ID, other, ErrConflict)
		}
	}
	unlike := seeded && a.Header.Seed != b.Seed
	switch {
	case a.Items == 0 && (unlike || a.Spec != spec):
		b.Generation = a.Header.Generation + 1
		f, err = e.makeEmpty(ctx, spec, b)
	case a.Spec != spec:
		err = fmt.Errorf("filter %s: in the archive: %w: %s", spec.Name, ErrConflict, a.Spec.Differences(spec))
	case unlike:
		err = &UnlikeError{Filter: spec.Name, Reason: "is in the archive, and " + otherSeed}
	default:
		f, err = e.adopt(ctx, *a)
	}
	return f, err == nil, err
}

// goneElsewhere reports whether another daemon has dropped a filter and Follow has not yet
// been notified.
func (e *Engine) goneElsewhere(ctx context.Context, f *Filter) (bool, error) {
	store, shared := e.store.(Shared)
	if !shared {
		return false, nil
	}
	there, err := store.Holds(ctx, f.Spec)
	return !there, err
}

// mayCreate refuses a filter that waits for the archive.
func (e *Engine) mayCreate(name string) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if w, ok := e.waiting[name]; ok {
		return &RestoringError{Filter: name, Cause: w.cause}
	}
	return nil
}

// ownerOf returns the filter, other than name, that has or waits for an id; "" for none. The
// caller holds mu.
func (e *Engine) ownerOf(id int, name string) string {
	if id == 0 {
		return "" // not known yet, so it has no owner
	}
	if f := e.id[id]; f != nil && f.Name != name {
		return f.Name
	}
	for other, w := range e.waiting {
		if w.spec.ID == id && other != name {
			return other
		}
	}
	for other, u := range e.unmade {
		if u.spec.ID == id && other != name {
			return other
		}
	}
	for _, q := range e.quarantine {
		if q.ID == id && q.Name != name {
			return q.Name
		}
	}
	for other, u := range e.changing {
		if u.id == id && other != name {
			return other
		}
	}
	return ""
}

// takeID reserves an id for name, unless another filter has it, whose name it returns.
func (e *Engine) takeID(id int, name string) (owner string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reserve(id, name)
}

// archived finds the newest version of a filter in the archive; nil for none. The error is a
// *RestoringError.
func (e *Engine) archived(ctx context.Context, name string) (*Archived, error) {
	if e.archive == nil {
		return nil, nil
	}
	all, err := e.archive.Newest(ctx)
	var found *Archived
	if i := slices.IndexFunc(all, func(a Archived) bool { return a.Spec.Name == name }); i >= 0 && err == nil {
		found, err = &all[i], all[i].Err
	}
	if err != nil {
		return nil, &RestoringError{Filter: name, Cause: err}
	}
	return found, nil
}

// makeEmpty makes an empty filter. The caller has begun its change.
func (e *Engine) makeEmpty(ctx context.Context, spec Spec, b Identity) (*Filter, error) {
	if err := validate(spec); err != nil {
		return nil, err
	}
	if f, err := e.existing(&spec); f != nil || err != nil {
		return f, err
	}
	if err := e.number(ctx, &spec); err != nil {
		return nil, err
	}
	set, err := e.store.Create(ctx, spec, b)
	if err != nil {
		return nil, err
	}
	e.log.Info("filter created", "filter", spec.Name, "id", spec.ID, "kind", spec.Kind, parameters(spec))
	return e.insert(spec, set), nil
}

// newIdentity returns an identity with a secret seed.
func newIdentity(generation uint64) Identity {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails, as documented
	return Identity{Seed: binary.LittleEndian.Uint64(seed[:]), Generation: generation, Created: time.Now()}
}

// lastNoted is the largest id that, if chosen by a caller, raises the next id to be given.
const lastNoted = 1 << 30

// number determines the id of a new filter: that of the settings, which it keeps when it is
// dropped and made again, or one that was never used. The caller has begun its change.
func (e *Engine) number(ctx context.Context, spec *Spec) error {
	store, keeps := e.store.(Numbers)
	fixed := e.fixed[spec.Name]
	switch {
	case spec.ID == 0 && fixed != 0 && e.takeID(fixed, spec.Name) == "":
		spec.ID = fixed
	case spec.ID >= firstFreeID && spec.ID <= lastNoted && keeps:
		return store.NoteID(ctx, spec.ID)
	case spec.ID == 0 && keeps:
		for least := firstFreeID; ; { // the store does not know filters that wait for the archive or are in quarantine
			id, err := store.TakeID(ctx, spec.Name, least)
			if err != nil {
				return err
			}
			if e.takeID(id, spec.Name) == "" {
				spec.ID = id
				return nil
			}
			least = id + 1
		}
	case spec.ID == 0:
		for spec.ID = firstFreeID; e.takeID(spec.ID, spec.Name) != ""; spec.ID++ {
		}
	}
	return nil
}

// existing finds the filter that spec asks for.
func (e *Engine) existing(spec *Spec) (*Filter, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.quarantined(spec.Name); err != nil {
		return nil, err
	}
	if f := e.name[spec.Name]; f != nil {
		if spec.ID == 0 {
			spec.ID = f.ID
		}
		if f.Spec != *spec {
			return nil, fmt.Errorf("filter %s: %w: %s", spec.Name, ErrConflict, f.Differences(*spec))
		}
		return f, nil
	}
	if spec.ID == 0 {
		return nil, nil
	}
	if other := e.reserve(spec.ID, spec.Name); other != "" {
		return nil, fmt.Errorf("filter %s: id %d is that of %s: %w", spec.Name, spec.ID, other, ErrConflict)
	}
	return nil, nil
}

// NoteArchived is called when the archive has got a version of a filter: if that was dropped or cleared meanwhile, and
// perhaps made again, the archive forgets it, too. A drop or clear under way, here or in another daemon, may have found
// nothing there that it had to make forgotten.
func (e *Engine) NoteArchived(ctx context.Context, f *Filter) error {
	ctx, end, err := e.begin(ctx, f.Name)
	if err != nil {
		return err
	}
	defer end()
	if err := e.catchUp(ctx); err != nil {
		return err
	}
	switch now, err := e.Lookup(f.Name); {
	case err == nil && now.Set == f.Set:
	case err == nil && (now.life == f.life || now.continues(f)):
		return e.recordCleared(ctx, now)
	case err == nil:
		return e.switchOff(ctx, f)
	case errors.As(err, new(*UnknownFilterError)):
		return e.leaveTombstone(ctx, f)
	}
	return nil
}

// continues reports whether f has the bit-map of an earlier filter of its name, which came back in a shared store,
// or one of a later generation.
func (f *Filter) continues(earlier *Filter) bool {
	was, isMap := earlier.Set.(BitMap)
	now, areMaps := f.Set.(BitMap)
	return isMap && areMaps && (now.Header().Generation > was.Header().Generation || now.Header().SameBits(was.Header()))
}

// switchOff makes the archive forget a filter that was dropped, and made again since: the one that has its name now
// could not be written back over a version of the former one, nor over its tombstone.
func (e *Engine) switchOff(ctx context.Context, f *Filter) error {
	bits, ok := f.Set.(BitMap)
	if !ok {
		return nil
	}
	a, err := e.archived(ctx, f.Name)
	if err != nil || a == nil || !a.Header.SameBits(bits.Header()) {
		return err
	}
	return a.SwitchOff(ctx)
}

// leaveTombstone makes the archive forget a filter, too: otherwise the next start would restore it.
func (e *Engine) leaveTombstone(ctx context.Context, f *Filter) error {
	bits, ok := f.Set.(BitMap)
	if !ok {
		return nil
	}
	a, err := e.archived(ctx, f.Name)
	if err != nil || a == nil {
		return err
	}
	have := bits.Header()
	switch {
	case a.Header.Generation > have.Generation, a.Header.Generation == have.Generation && a.Header.Seed != have.Seed:
		return nil // another bit-map: dropping this one gets that one restored
	case a.Dropped && a.Header.Generation < have.Generation:
		return nil // made again since, and not archived
	}
	h, err := BitMapHeader(f.Spec, newIdentity(have.Generation+1), have.K() > 8)
	if err != nil {
		return err
	}
	return e.archive.LeaveTombstone(ctx, f.Spec, h, true)
}
