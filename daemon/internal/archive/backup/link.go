package backup

import (
	"context"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Link gives access to an archive that may not be reachable yet: it opens the archive when that
// is first needed, and tries again for as long as that fails. A Link is what the engine knows of
// the archive. It is safe for concurrent use.
type Link struct {
	options archive.Options
	connect func(context.Context, archive.Options) (*archive.Archive, error)
	base    context.Context // of attempts; ended by Close
	stop    context.CancelFunc

	mu      sync.Mutex
	archive *archive.Archive // nil: not opened
	trying  *attempt         // nil: nobody is opening it

	copies copies
}

// attempt is one attempt to open the archive. All callers that want the archive meanwhile wait
// for it: it takes seconds to find out that an archive is gone.
type attempt struct {
	done    chan struct{}
	archive *archive.Archive
	err     error
}

var _ engine.Archive = (*Link)(nil)

// NewLink makes a Link; it opens nothing.
func NewLink(o archive.Options) *Link {
	base, stop := context.WithCancel(context.Background())
	return &Link{options: o, connect: archive.Open, base: base, stop: stop}
}

// Open returns the archive, and opens it if necessary.
func (l *Link) Open(ctx context.Context) (*archive.Archive, error) {
	l.mu.Lock()
	if l.archive != nil {
		defer l.mu.Unlock()
		return l.archive, nil
	}
	try := l.trying
	if try == nil {
		try = &attempt{done: make(chan struct{})}
		l.trying = try
		go l.open(try)
	}
	l.mu.Unlock()
	select {
	case <-try.done:
		return try.archive, try.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *Link) open(try *attempt) {
	try.archive, try.err = l.connect(l.base, l.options)
	l.mu.Lock()
	l.archive, l.trying = try.archive, nil
	l.mu.Unlock()
	close(try.done)
}

// opened returns the archive if it was opened already, else nil.
func (l *Link) opened() *archive.Archive {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.archive
}

// Connected reports whether the archive was opened and was reachable when last seen.
func (l *Link) Connected() bool {
	a := l.opened()
	return a != nil && a.Connected()
}

// Close ends the connections, and an attempt under way.
func (l *Link) Close(ctx context.Context) error {
	l.stop()
	l.mu.Lock()
	try := l.trying
	l.mu.Unlock()
	if try != nil {
		<-try.done
	}
	if a := l.opened(); a != nil {
		return a.Close(ctx)
	}
	return nil
}

// Newest implements engine.Archive.
func (l *Link) Newest(ctx context.Context) ([]engine.Archived, error) {
	a, err := l.Open(ctx)
	if err != nil {
		return nil, err
	}
	versions, bad, err := a.Newest(ctx)
	if err != nil {
		return nil, err
	}
	var all []engine.Archived
	for _, v := range versions {
		all = append(all, l.archived(a, v, nil))
	}
	for name, err := range bad {
		all = append(all, engine.Archived{Spec: engine.Spec{Name: name}, Err: err})
	}
	return all, nil
}

// NewestOfEach picks the newest version of each filter from a list, newest first.
func NewestOfEach(versions []archive.Version) []archive.Version {
	seen := map[string]bool{}
	var newest []archive.Version
	for _, v := range versions {
		if v.On && !seen[v.Spec.Name] {
			seen[v.Spec.Name] = true
			newest = append(newest, v)
		}
	}
	return newest
}

func (l *Link) archived(a *archive.Archive, v archive.Version, p archive.Progress) engine.Archived {
	return engine.Archived{
		Spec: v.Spec, Header: v.Header, Items: v.Items, Created: v.Created, Dropped: v.Dropped,
		Restore: func(ctx context.Context, into engine.Sink) error {
			note, end := l.copies.begin("restore", v.Spec.Name, p)
			defer end()
			return a.Restore(ctx, v, into, note)
		},
		SwitchOff: func(ctx context.Context) error { return a.SwitchOff(ctx, v) },
	}
}

// LeaveTombstone implements engine.Archive.
func (l *Link) LeaveTombstone(ctx context.Context, spec engine.Spec, h bloom.Header, dropped bool) error {
	a, err := l.Open(ctx)
	if err != nil {
		return err
	}
	return a.LeaveTombstone(ctx, spec, h, dropped)
}
