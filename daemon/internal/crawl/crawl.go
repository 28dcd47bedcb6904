package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/form"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/frontier"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/graph"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/pages"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/cookies"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/robots"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// robotsMemory bounds the memory for rules, in bytes.
const robotsMemory = 64 << 20

// Options belong to the process, and are not saved in the folder.
type Options struct {
	Version string          // of the program, for its name in requests
	Filter  []client.Option // for calls of the daemon at Setting.FilterURL
	Fetch   fetch.Options   // resolver, authorities and so on; the crawl sets agent, guard and folder
	Jar     http.CookieJar  // holds the cookies of a session; nil: an empty one
	// RetryFailed is for Resume: URIs that have failed are queued once more, as if they had never been tried.
	RetryFailed bool
	Log         *slog.Logger // logs the outcome of each URI without a page; nil: nothing is logged
}

// Crawl is an open crawl. Run runs it; Progress may be called meanwhile.
type Crawl struct {
	Setting     Setting
	frontier    *frontier.Frontier
	folder      *pages.Folder
	fetcher     *fetch.Fetcher
	robots      *robots.Cache
	scope       *scope
	archive     *archive // nil: none is written
	jar         http.CookieJar
	session     *form.File // nil: the crawl is not logged in
	log         *slog.Logger
	agent       string
	speed       speed
	away        away
	closers     []io.Closer
	lastFailure atomic.Pointer[string]
	ledAway     atomic.Pointer[Redirect]
}

// BegunError is for a folder that already has a crawl.
type BegunError struct{ Dir string }

func (e *BegunError) Error() string {
	return fmt.Sprintf("%s: there is a crawl in this folder\nhint: continue it with --resume, or name another folder with --out", e.Dir)
}

// NoneError is for a folder that has no crawl to continue.
type NoneError struct{ Dir string }

func (e *NoneError) Error() string {
	return fmt.Sprintf("%s: there is no crawl in this folder\nhint: name its folder with --out, or start one without --resume", e.Dir)
}

// Begin begins a crawl in a folder that has none.
func Begin(ctx context.Context, dir string, s Setting, o Options) (*Crawl, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := vacant(dir); err != nil {
		return nil, err
	}
	f, err := frontier.Open(ctx, dir)
	if err != nil {
		return nil, inUse(dir, err)
	}
	if f.Setting() != nil {
		if c := f.Counts(); c.Stored > 0 || c.Queued > 0 {
			return nil, errors.Join(&BegunError{dir}, f.Close())
		}
		// It has nothing, and nothing to do: it does not stand in the way of a better one.
		if err := errors.Join(f.Close(), discard(dir)); err != nil {
			return nil, err
		}
		if f, err = frontier.Open(ctx, dir); err != nil {
			return nil, inUse(dir, err)
		}
	}
	return open(ctx, dir, s, o, f, true)
}

// Resume continues the crawl of a folder. change changes its setting, which is saved.
func Resume(ctx context.Context, dir string, change func(*Setting) error, o Options) (*Crawl, error) {
	if !frontier.Exists(dir) {
		return nil, &NoneError{dir}
	}
	f, err := frontier.Open(ctx, dir)
	if err != nil {
		return nil, inUse(dir, err)
	}
	if f.Setting() == nil {
		return nil, errors.Join(&NoneError{dir}, f.Close())
	}
	s, err := readSetting(f.Setting())
	if err == nil {
		err = change(&s)
	}
	if err == nil {
		err = s.Validate()
	}
	if have := f.Counts().Stored; err == nil && s.MaxPages < have {
		err = fmt.Errorf("--max-pages %d: %d pages are stored already\nhint: want as many or more", s.MaxPages, have)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return open(ctx, dir, s, o, f, false)
}

// vacant returns an error for a folder with files that a crawl would take for its own.
func vacant(dir string) error {
	if frontier.Exists(dir) {
		return nil // Begin checks whether there is a crawl in it
	}
	for _, name := range []string{pagesDir, IndexFile, FailedFile, graph.File, filterDir, archiveDir} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s: %s exists, but not the crawl that it belongs to\nhint: name another folder with --out", dir, name), err)
		}
	}
	return nil
}

// discard removes what a crawl that has ended without a page has left.
func discard(dir string) error {
	var errs []error
	for _, name := range []string{pagesDir, IndexFile, FailedFile, graph.File, filterDir, archiveDir} {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	return errors.Join(append(errs, frontier.Remove(dir))...)
}

func inUse(dir string, err error) error {
	if used := (*disk.InUseError)(nil); errors.As(err, &used) {
		return fmt.Errorf("%s: another crawl is running in this folder (%s)\nhint: wait for it or stop it, or name another folder with --out", dir, used.Holder)
	}
	return err
}

// open opens all that a crawl needs; closing the crawl closes f, and so does an error.
func open(ctx context.Context, dir string, s Setting, o Options, f *frontier.Frontier, begin bool) (_ *Crawl, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Crawl{Setting: s, frontier: f, jar: o.Jar, log: o.Log, agent: s.Agent(o.Version), closers: []io.Closer{f}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	var seeds []*uri.URI
	var targets []frontier.Target
	for _, text := range s.Seeds {
		u, err := uri.Parse(text)
		if err != nil {
			return nil, err
		}
		seeds, targets = append(seeds, u), append(targets, frontier.Target{URI: u.String(), Host: u.Name()})
	}
	c.scope = newScope(s.Scope, seeds)
	if err := f.SeedRedirects(ctx, c.follows); err != nil {
		return nil, err
	}
	asked, closer, err := openFilter(ctx, dir, s, o.Filter, o.Log)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, closer)
	settings := frontier.Options{
		MaxPages: s.MaxPages, MaxDepth: s.MaxDepth, MaxPerHost: s.MaxPerHost, Attempts: s.Attempts, Strict: s.Threads == 1,
		PerHost: s.perHost(), Delay: s.Delay, Rule: rule(), Filter: asked, Shared: s.FilterURL != "",
	}
	text, err := s.marshal()
	if err != nil {
		return nil, err
	}
	if begin {
		err = f.Begin(ctx, text, targets, settings)
	} else {
		err = f.SetSetting(ctx, text)
	}
	if err != nil {
		return nil, err
	}
	if o.RetryFailed {
		if err := f.RetryFailed(ctx); err != nil {
			return nil, err
		}
	}
	if settings.Outputs, err = c.outputs(ctx, dir); err != nil {
		return nil, err
	}
	if err := f.Start(ctx, settings); err != nil {
		return nil, err
	}
	o.Fetch.Guard = guard.New(guard.Options{AllowPrivate: s.Private})
	o.Fetch.UserAgent, o.Fetch.SpillDir, o.Fetch.Log = c.agent, dir, o.Log
	c.fetcher = fetch.New(o.Fetch)
	c.robots = robots.NewCache(product, robotsMemory, nil)
	if c.jar == nil {
		c.jar = cookies.New(0).Jar(1)
	}
	return c, nil
}

// outputs opens the files of a folder, cut to their committed length.
func (c *Crawl) outputs(ctx context.Context, dir string) ([]frontier.Output, error) {
	var err error
	if c.folder, err = pages.Open(filepath.Join(dir, pagesDir), disk.FS{}); err != nil {
		return nil, err
	}
	// Data that was written but never committed does not count.
	var wrong error
	if _, err := c.folder.Sweep(func(name string) bool {
		has, err := c.frontier.HasFile(ctx, name)
		wrong = errors.Join(wrong, err)
		return has || err != nil
	}); err != nil || wrong != nil {
		return nil, errors.Join(err, wrong)
	}
	outs := []frontier.Output{folderOutput{c.folder}}
	for name, line := range map[string]func(*frontier.Outcome) ([]byte, error){IndexFile: indexLine, FailedFile: failedLine, graph.File: graphLines} {
		l, err := openLines(dir, name, c.frontier.Committed(name), line)
		if err != nil {
			return nil, err
		}
		c.closers = append(c.closers, l.file)
		outs = append(outs, l)
	}
	if c.Setting.WARC {
		a, err := openArchive(dir, c.frontier.Committed(archiveDir), c.agent)
		if err != nil {
			return nil, err
		}
		c.closers = append(c.closers, a.w)
		c.archive = a
		outs = append(outs, a)
	}
	return outs, disk.FS{}.SyncDir("crawl-lines", dir)
}

// Close releases what Run leaves open. Run must have returned. The frontier is closed first.
func (c *Crawl) Close() error {
	var errs []error
	for _, closer := range c.closers {
		errs = append(errs, closer.Close())
	}
	if c.closers = nil; c.fetcher != nil {
		c.fetcher.Close()
	}
	return errors.Join(errs...)
}

// follows widens the scope by where a seed has led before.
func (c *Crawl) follows(seed, to string) {
	from, err1 := uri.Parse(seed)
	next, err2 := uri.Parse(to)
	if err1 == nil && err2 == nil {
		c.scope.widen(from, next)
	}
}

// Run crawls until the crawl is done, or ctx ends: then the error is the cause of ctx, and Resume can continue.
func (c *Crawl) Run(ctx context.Context) error {
	saveCookies, err := c.login(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.speed.begin()
	var threads sync.WaitGroup
	for range c.Setting.Threads {
		threads.Go(func() {
			for {
				done, err := c.step(ctx)
				if err != nil {
					cancel(err)
				}
				if done || err != nil {
					return
				}
			}
		})
	}
	threads.Wait()
	return errors.Join(context.Cause(ctx), saveCookies())
}

// step fetches one URI.
func (c *Crawl) step(ctx context.Context) (done bool, _ error) {
	l, err := c.frontier.Lease(ctx)
	if errors.Is(err, frontier.ErrDone) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	r, later, err := c.visit(ctx, l)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // an interrupted attempt is no failure of the URI
	}
	if err != nil {
		c.frontier.Abandon(l)
		return false, err
	}
	if later != nil {
		c.frontier.Postpone(l, later.pause, later.last)
		if later.last {
			c.lastFailure.Store(&later.text)
		}
		c.log.Warn("host cannot be had", "host", l.Host, "err", later.text, "after", later.pause)
		return false, nil
	}
	o, err := c.frontier.Settle(l, r)
	if err == nil {
		c.settled(o)
	}
	return false, err
}

// settled logs the outcome of a URI.
func (c *Crawl) settled(o *frontier.Outcome) {
	switch {
	case o.Stored:
		c.speed.stored()
	case o.Failure != nil && o.Final:
		text := o.Failure.Reason + ": " + o.Failure.Text
		c.lastFailure.Store(&text)
		c.log.Warn("given up", "uri", o.URI, "reason", o.Failure.Reason, "err", o.Failure.Text)
	case o.Failure != nil:
		c.log.Info("will be tried again", "uri", o.URI, "reason", o.Failure.Reason, "after", o.Failure.After)
	}
}

// ownType is the name of the filter in the folder of a crawl.
const ownType = "uri"

// filter is the filter that a crawl asks before it queues a URI.
type filter struct {
	of   seen.Filter
	name string
}

func (f filter) Check(ctx context.Context, uris []string) ([]bool, error) {
	return f.of.Check(ctx, f.name, uris)
}

func (f filter) Remember(ctx context.Context, uris []string) error {
	return f.of.Remember(ctx, f.name, uris)
}

// openFilter opens the filter in the folder, or connects to the daemon that the crawl shares.
func openFilter(ctx context.Context, dir string, s Setting, options []client.Option, log *slog.Logger) (filter, io.Closer, error) {
	if s.FilterURL == "" {
		own, err := seen.OpenVolatile(ctx, filepath.Join(dir, filterDir), log)
		return filter{own, ownType}, own, err
	}
	daemon, err := client.New(s.FilterURL, options...)
	if err != nil {
		return filter{}, nil, err
	}
	remote := seen.Call(daemon)
	// A missing filter is reported before anything is fetched.
	if _, err := remote.Check(ctx, s.FilterType, []string{s.Seeds[0]}); err != nil {
		_ = remote.Close()
		hint := "is a urifilter daemon running there? `urifilter ping` asks it; start one with `urifilter serve`"
		if errors.As(err, new(*seen.UnknownError)) {
			hint = "`urifilter filters list` shows which filters it has; name one with --filter"
		}
		return filter{}, nil, fmt.Errorf("--server %s: %w\nhint: %s", s.FilterURL, err, hint)
	}
	return filter{remote, s.FilterType}, remote, nil
}
