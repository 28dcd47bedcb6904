// Package backup copies bit-maps between the engine's filters and the archive: on request, on
// a schedule, and at a start that finds the store without them. It runs at most one copy per
// filter at a time, counts copies, and notes failures.
//
// The archive makes a copy crash-safe. The engine decides, at a start, where each filter comes
// from.
package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// noteTimeout bounds the time to note an error in the archive, which may itself be what failed.
const noteTimeout = 5 * time.Second

// ErrStopping is returned for copies that were cut off because the daemon stops.
var ErrStopping = engine.ErrStopping

// BusyError is returned when a copy of the filter is under way in this process.
type BusyError struct{ Filter, Doing string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("filter %s: a %s is under way in this daemon", e.Filter, e.Doing)
}

// UnknownVersionError is returned for a version that the archive does not have.
type UnknownVersionError struct {
	Filter, Version string   // Version "": the newest, of a filter that is not dropped
	Known           []string // newest first
}

func (e *UnknownVersionError) Error() string {
	switch {
	case e.Version == "" && e.Known != nil:
		return fmt.Sprintf("filter %s: was dropped; an older version is restored if it is named", e.Filter)
	case e.Version == "":
		return fmt.Sprintf("filter %s: the archive has no version of it", e.Filter)
	}
	return fmt.Sprintf("filter %s: the archive has no version %s", e.Filter, e.Version)
}

// CopyError is returned for a copy that was begun and failed. The archive has what it had before;
// a restore may have set some bits, which does no harm.
type CopyError struct {
	Doing, Filter string
	Err           error
}

func (e *CopyError) Error() string { return e.Doing + " of " + e.Filter + ": " + e.Err.Error() }
func (e *CopyError) Unwrap() error { return e.Err }

// Copy describes a writeback or restore that is done.
type Copy struct {
	Filter     string
	Version    string
	Generation uint64
	Bytes      int64  // of the bit-map
	Uploaded   int64  // bytes sent to the archive; a restore sends none
	Items      uint64 // estimate, in the version
	Took       time.Duration
}

// Copier is safe for concurrent use.
type Copier struct {
	engine  *engine.Engine
	link    *Link
	log     *slog.Logger
	metrics *metrics

	noteTimeout time.Duration // a constant, except in tests

	agree  sync.Once
	agreed chan struct{} // closed when store and archive agree: filters know when they were last written back

	mu      sync.Mutex
	busy    map[string]underway // by filter
	stopped bool
	copies  sync.WaitGroup
}

// underway is a copy that has begun.
type underway struct {
	doing  string
	cutOff context.CancelCauseFunc
}

// New makes a Copier for an engine whose Archive is link, and registers its metrics.
func New(e *engine.Engine, link *Link, registry prometheus.Registerer, log *slog.Logger) *Copier {
	return &Copier{engine: e, link: link, log: log, metrics: newMetrics(registry, e, link.Connected), noteTimeout: noteTimeout, agreed: make(chan struct{}), busy: map[string]underway{}}
}

// Stop cuts off the copies under way, which harms none of the versions, and waits for
// them to end. Later copies are refused.
func (k *Copier) Stop() {
	k.mu.Lock()
	k.stopped = true
	for _, c := range k.busy {
		c.cutOff(ErrStopping)
	}
	k.mu.Unlock()
	k.copies.Wait()
}

// begin claims the filter for a copy. The caller must call end when the copy is done.
func (k *Copier) begin(ctx context.Context, filter, doing string) (_ context.Context, end func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return nil, nil, ErrStopping
	}
	if other, ok := k.busy[filter]; ok {
		return nil, nil, &BusyError{Filter: filter, Doing: other.doing}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	k.busy[filter] = underway{doing, cancel}
	k.copies.Add(1)
	return ctx, func() {
		cancel(nil)
		k.mu.Lock()
		delete(k.busy, filter)
		k.mu.Unlock()
		k.copies.Done()
	}, nil
}

// Writeback copies a filter, by name or id, to the archive. p may be nil.
func (k *Copier) Writeback(ctx context.Context, ref string, p archive.Progress) (Copy, error) {
	f, err := k.engine.Find(ctx, ref)
	if err != nil {
		return Copy{}, err
	}
	bits, err := f.BitMap()
	if err != nil {
		return Copy{}, err
	}
	ctx, end, err := k.begin(ctx, f.Name, "writeback")
	if err != nil {
		return Copy{}, err
	}
	defer end()
	start := time.Now()
	version, err := k.writeback(ctx, f.Spec, bits, p)
	if err == nil {
		err = k.engine.NoteArchived(ctx, f)
	}
	took := time.Since(start)
	if err != nil {
		return Copy{}, k.failed(ctx, "writeback", f.Spec, err)
	}
	bits.WrittenBack(start)
	k.metrics.writeback.Observe(took.Seconds())
	k.metrics.uploaded.Add(float64(version.Uploaded))
	k.log.Debug("writeback done", "filter", f.Name, "version", version.ID, "bytes", version.Bytes, "uploaded", version.Uploaded,
		"items_estimate", version.Items, "took", took.Round(time.Millisecond))
	return copied(version, took), nil
}

func (k *Copier) writeback(ctx context.Context, spec engine.Spec, bits engine.BitMap, p archive.Progress) (archive.Version, error) {
	a, err := k.link.Open(ctx)
	if err != nil {
		return archive.Version{}, err
	}
	note, end := k.link.copies.begin("writeback", spec.Name, p)
	defer end()
	return a.Writeback(ctx, spec, bits, note)
}

// Restore sets, in a filter given by name or id, all bits of a version in the archive, or of the
// newest one if version is "". It creates a filter that the store lacks. p may be nil.
func (k *Copier) Restore(ctx context.Context, ref, version string, p archive.Progress) (Copy, error) {
	name, err := k.nameOf(ctx, ref)
	if err != nil {
		return Copy{}, err
	}
	ctx, end, err := k.begin(ctx, name, "restore")
	if err != nil {
		return Copy{}, err
	}
	defer end()
	start := time.Now()
	v, err := k.restore(ctx, name, version, p)
	took := time.Since(start)
	if err != nil {
		return Copy{}, k.failed(ctx, "restore", v.Spec, err)
	}
	k.metrics.restore.Observe(took.Seconds())
	k.log.Info("restore done", "filter", name, "version", v.ID, "bytes", v.Bytes, "items_estimate", v.Items, "took", took.Round(time.Millisecond))
	v.Uploaded = 0
	return copied(v, took), nil
}

func (k *Copier) restore(ctx context.Context, name, version string, p archive.Progress) (archive.Version, error) {
	none := archive.Version{Spec: engine.Spec{Name: name}}
	a, err := k.link.Open(ctx)
	if err != nil {
		return none, err
	}
	v, err := find(ctx, a, name, version)
	if err != nil {
		return none, err
	}
	_, err = k.engine.Restore(ctx, k.link.archived(a, v, p))
	return v, err
}

// nameOf finds the name of the filter that ref refers to, which may be one that the store lacks.
// A filter that the store has must have a bit-map.
func (k *Copier) nameOf(ctx context.Context, ref string) (string, error) {
	f, err := k.engine.Find(ctx, ref)
	var waits *engine.RestoringError
	switch {
	case err == nil:
		_, err := f.BitMap()
		return f.Name, err
	case errors.As(err, &waits):
		return waits.Filter, nil
	case errors.As(err, new(*engine.UnknownFilterError)):
		return ref, nil // the archive may have it
	}
	return "", err
}

// find picks one version of a filter; "" is the newest.
func find(ctx context.Context, a *archive.Archive, filter, version string) (archive.Version, error) {
	all, err := a.Versions(ctx, filter)
	if err != nil && version == "" { // no older one takes the place of one that cannot be used
		return archive.Version{}, err
	}
	unknown := &UnknownVersionError{Filter: filter, Version: version}
	for _, v := range all {
		if !v.On {
			continue
		}
		if v.ID == version || version == "" && !v.Dropped && unknown.Known == nil { // nothing older takes the place of a tombstone
			return v, nil
		}
		unknown.Known = append(unknown.Known, v.ID)
	}
	if err != nil {
		return archive.Version{}, err
	}
	return archive.Version{}, unknown
}

func copied(v archive.Version, took time.Duration) Copy {
	return Copy{
		Filter: v.Spec.Name, Version: v.ID, Generation: v.Header.Generation,
		Bytes: v.Bytes, Uploaded: v.Uploaded, Items: v.Items, Took: took,
	}
}

// failed counts, logs and notes the error of a copy, and returns the error for the caller. A
// copy that was not begun, or that its caller gave up, does not count as failed.
func (k *Copier) failed(ctx context.Context, doing string, spec engine.Spec, err error) error {
	switch cause := context.Cause(ctx); {
	case cause != nil:
		k.log.Info(doing+" given up", "filter", spec.Name, "reason", cause)
		return cause
	case errors.As(err, new(*archive.LeaseError)), errors.As(err, new(*UnknownVersionError)):
		return err
	}
	k.metrics.failed.add(doing, spec.Name)
	k.log.Error(doing+" failed", "filter", spec.Name, "err", err)
	err = &CopyError{Doing: doing, Filter: spec.Name, Err: err}
	if !errors.Is(err, archive.ErrUnreachable) { // else the note would wait for it as well
		k.note(ctx, spec.ID, err.Error())
	}
	return err
}

// note records an error in the archive, for people who look there, if the archive was opened.
func (k *Copier) note(ctx context.Context, filterID int, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.noteTimeout)
	defer cancel()
	a := k.link.opened()
	if a == nil {
		return
	}
	if err := a.RecordError(ctx, filterID, reason); err != nil {
		k.log.Debug("error not noted in the archive", "err", err)
	}
}

// The wait between two attempts to reconcile: the first, doubled each time up to the second.
const (
	reconcileFirst = 500 * time.Millisecond
	reconcileMax   = 30 * time.Second
)

// Reconcile brings store and archive together, and retries until that is done or ctx ends.
func (k *Copier) Reconcile(ctx context.Context) {
	for wait := reconcileFirst; ; wait = min(2*wait, reconcileMax) {
		err := k.engine.Reconcile(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			k.log.Info("store and archive agree on the filters", "filters", len(k.engine.Filters()))
			k.agree.Do(func() { close(k.agreed) })
			return
		}
		k.log.Warn("the archive cannot be read; filters that the store has are served, others wait",
			"waiting", k.engine.Waiting(), "again_in", wait, "err", err)
		if !sleep(ctx, wait) {
			return
		}
	}
}

// Every writes all bit-maps back, one after the other, each time interval has passed; what has passed before
// a start counts, from the last writeback or, if there was none, from when the filter was made. If the archive
// cannot be reached, the round ends: the others would each wait for it in vain. The interval varies by a tenth,
// so that daemons that were started together drift apart. Every returns when ctx ends.
func (k *Copier) Every(ctx context.Context, interval time.Duration) {
	for due := k.awaitFirst(ctx, interval); due; due = sleep(ctx, jittered(interval)) {
		var unreachable error
		for _, f := range k.engine.Filters() {
			if _, err := f.BitMap(); err != nil {
				continue
			}
			if unreachable != nil {
				k.metrics.failed.add("writeback", f.Name)
				k.log.Error("writeback not tried", "filter", f.Name, "err", unreachable)
				continue
			}
			_, err := k.Writeback(ctx, f.Name, nil)
			switch {
			case ctx.Err() != nil:
				return
			case errors.As(err, new(*BusyError)), errors.As(err, new(*archive.LeaseError)):
				k.log.Info("scheduled writeback skipped: another daemon is writing back", "filter", f.Name, "reason", err)
			case errors.Is(err, archive.ErrUnreachable):
				unreachable = archive.ErrUnreachable
			}
			// Other errors were logged and counted; the next round is another try.
		}
	}
}

// awaitFirst waits until the first round of this process is due, and reports false if ctx ended first. A
// daemon that is started more often than interval passes would otherwise have none.
func (k *Copier) awaitFirst(ctx context.Context, interval time.Duration) bool {
	start, wait := time.Now(), jittered(interval)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	case <-k.agreed:
	}
	passed := time.Duration(0)
	for _, f := range k.engine.Filters() {
		bits, err := f.BitMap()
		if err != nil {
			continue
		}
		last := f.Stats().LastWriteback
		if last.IsZero() {
			last = bits.Header().Created
		}
		passed = max(passed, start.Sub(last))
	}
	wait = max(wait-passed, jittered(interval/10)) // not all daemons of a fleet at once
	return sleep(ctx, wait-time.Since(start))
}

func jittered(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1)
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Underway is how far a copy has come, whoever has begun it.
type Underway struct {
	Filter, Doing string // writeback or restore
	Done, Of      int    // stripes; Of 0: it has just begun
}

// copies are those that run.
type copies struct {
	mu  sync.Mutex
	all map[*Underway]bool
}

// begin notes a copy. The returned Progress takes note of its steps, and passes them on.
func (c *copies) begin(doing, filter string, p archive.Progress) (note archive.Progress, end func()) {
	u := &Underway{Filter: filter, Doing: doing}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*Underway]bool{}
	}
	c.all[u] = true
	note = func(stripe, of int) {
		c.mu.Lock()
		u.Done, u.Of = stripe, of
		c.mu.Unlock()
		if p != nil {
			p(stripe, of)
		}
	}
	return note, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, u)
	}
}

// Underway lists the copies that run, by filter.
func (l *Link) Underway() []Underway {
	l.copies.mu.Lock()
	defer l.copies.mu.Unlock()
	var all []Underway
	for u := range l.copies.all {
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b Underway) int { return cmp.Or(cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.Doing, b.Doing)) })
	return all
}
