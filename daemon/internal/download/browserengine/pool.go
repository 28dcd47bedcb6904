package browserengine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/chromium"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/devtools"
)

// browser is a running browser. It has one page at a time, and only pages of one job, because
// nothing inside it is a safe boundary: a page that has broken in must not reach another job.
type browser struct {
	process *chromium.Process
	conn    *devtools.Conn
	job     int64
	pages   int         // that it has loaded
	idle    *time.Timer // ends it

	mu    sync.Mutex // guards the fields below
	visit *visit     // gets the events; nil: nobody
}

// start starts a browser. Also after an error, the returned browser, if not nil, must be ended.
func (e *Engine) start(ctx context.Context) (*browser, error) {
	path, err := chromium.Find(e.o.Path)
	if err != nil {
		return nil, unable("browser: no browser: %v", err)
	}
	p, err := chromium.Start(chromium.Options{Program: e.o.Program, Browser: path, Dir: e.o.Dir, Memory: e.o.Memory})
	if err != nil {
		return nil, unable("browser: no browser: %v", err)
	}
	b := &browser{process: p}
	b.conn = devtools.New(p.In, p.Out, devtools.Options{MaxMessage: maxMessage, Handle: b.handle})
	ctx, cancel := context.WithTimeoutCause(ctx, startIn, fmt.Errorf("said nothing for %s", startIn))
	defer cancel()
	if err := b.conn.Call(ctx, "", "Browser.getVersion", nil, nil); err != nil {
		return b, unable("%v", b.died(err))
	}
	return b, nil
}

// end kills a browser and removes what it leaves. nil is allowed.
func (b *browser) end() error {
	if b == nil {
		return nil
	}
	err := b.process.End()
	<-b.conn.Done()
	return err
}

// died says why a call has failed: how the browser has ended, if it has.
func (b *browser) died(err error) error {
	select {
	case <-b.conn.Done():
	default:
		return fmt.Errorf("browser: %w", err)
	}
	if errors.Is(b.conn.Err(), devtools.ErrTooLong) {
		return fmt.Errorf("browser: %w", err)
	}
	b.process.Kill() // it has closed its pipe, but may still run
	<-b.process.Done()
	why, jailed := b.process.Why()
	if jailed {
		return unable("jail: no browser: %s", why)
	}
	return fmt.Errorf("browser: has ended: %s", why)
}

func (b *browser) handle(event devtools.Event) {
	b.mu.Lock()
	v := b.visit
	b.mu.Unlock()
	if v != nil {
		v.handle(event)
	}
}

func (b *browser) serve(v *visit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.visit = v
}

// acquire returns a browser for a page of a job: one that has served this job, or a new one. The
// caller must hold a place.
func (e *Engine) acquire(ctx context.Context, job int64) (*browser, error) {
	for {
		e.mu.Lock()
		i := len(e.idle) - 1
		for i >= 0 && e.idle[i].job != job {
			i--
		}
		own := i >= 0
		if i < 0 && len(e.idle)+len(e.places) > e.o.Pages { // the least recently used one makes room
			i = 0
		}
		var b *browser
		if i >= 0 {
			b = e.idle[i]
			e.idle = slices.Delete(e.idle, i, i+1)
		}
		e.mu.Unlock()
		if b == nil {
			break
		}
		b.idle.Stop()
		select {
		case <-b.conn.Done(): // it has died since
		default:
			if own {
				return b, nil
			}
		}
		if err := b.end(); err != nil {
			e.o.Log.Warn("browser not cleaned up", "err", err)
		}
	}
	b, err := e.start(ctx)
	if err != nil {
		if ended := b.end(); ended != nil {
			e.o.Log.Warn("browser not cleaned up", "err", ended)
		}
		return nil, err
	}
	b.job = job
	return b, nil
}

// giveBack keeps a browser for the next page of its job, unless it has loaded its share of pages.
func (e *Engine) giveBack(b *browser) {
	b.pages++
	e.mu.Lock()
	keep := !e.closed && b.pages < e.o.Renew
	if keep {
		b.idle = time.AfterFunc(e.o.Idle, func() { e.drop(b) })
		e.idle = append(e.idle, b)
	}
	e.mu.Unlock()
	if keep {
		return
	}
	if err := b.end(); err != nil {
		e.o.Log.Warn("browser not cleaned up", "err", err)
	}
}

// drop ends a browser that has been idle for too long, if it still is.
func (e *Engine) drop(b *browser) {
	e.mu.Lock()
	i := slices.Index(e.idle, b)
	if i >= 0 {
		e.idle = slices.Delete(e.idle, i, i+1)
	}
	e.mu.Unlock()
	if i < 0 {
		return
	}
	if err := b.end(); err != nil {
		e.o.Log.Warn("browser not cleaned up", "err", err)
	}
}
