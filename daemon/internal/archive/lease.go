package archive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A lease keeps two writebacks of one filter from doing the same work. That no version
// is lost does not rest on it: see fence.
//
// Leases of a filter are numbered; who inserts the next number has it. A document is
// changed by its owner only, and the one with the highest number stays, so that a
// number is given once.
type lease struct {
	a      *Archive
	filter string
	n      int64
	// tidy: the writeback before ended by itself and left nothing behind. Otherwise
	// it may still be under way, and its files may lie about.
	tidy bool
}

// leaseDoc is a document of filter_bit_map_lease. Times are the server's.
type leaseDoc struct {
	ID      string    `bson:"_id"`
	Filter  string    `bson:"filter"`
	N       int64     `bson:"n"`
	Owner   string    `bson:"owner"`
	Taken   time.Time `bson:"taken"`
	Expires time.Time `bson:"expires"`
	Tidy    bool      `bson:"tidy"`
}

func (d *leaseDoc) held(now time.Time) bool { return d.N > 0 && now.Before(d.Expires) }

func (d *leaseDoc) err() error {
	return &LeaseError{Filter: d.Filter, Owner: d.Owner, Until: d.Expires}
}

// Held tells whether somebody is writing back the filter: a *LeaseError names who. Any
// other error says that it cannot be known.
func (a *Archive) Held(ctx context.Context, filter string) error {
	now, err := a.serverTime(ctx)
	if err != nil {
		return a.named(err)
	}
	last, err := a.lastLease(ctx, filter)
	if err != nil {
		return a.named(err)
	}
	if a.inUse(&last, now) {
		return last.err()
	}
	return nil
}

// ended is the last lease of a filter under which this process has worked, and works no
// more. The archive may still call it held: the answer to its insert was lost, or it could
// not be released. Others then wait until it expires; this process need not.
type ended struct {
	n    int64
	tidy bool
}

// end notes that nothing is done under the lease any more.
func (a *Archive) end(filter string, e ended) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended[filter] = e
}

// inUse reports whether somebody works under the lease: it is held, and not by work of this
// process that has ended.
// For such work it sets last.Tidy to what the process knows.
func (a *Archive) inUse(last *leaseDoc, now time.Time) bool {
	if !last.held(now) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.ended[last.Filter]
	if !ok || e.n != last.N || last.Owner != a.opt.Owner {
		return true
	}
	last.Tidy = e.tidy
	return false
}

// acquire takes the lease of a filter, or returns a *LeaseError.
func (a *Archive) acquire(ctx context.Context, filter string) (*lease, error) {
	if err := a.fault("lease"); err != nil {
		return nil, err
	}
	var last leaseDoc
	for range 3 { // the quicker one may have ended meanwhile
		now, err := a.serverTime(ctx)
		if err != nil {
			return nil, err
		}
		if last, err = a.lastLease(ctx, filter); err != nil {
			return nil, err
		}
		if a.inUse(&last, now) {
			return nil, last.err()
		}
		n, tidy := last.N+1, last.N == 0 || last.Tidy
		err = a.insertLease(ctx, leaseDoc{
			ID: versionID(filter, n), Filter: filter, N: n, Owner: a.opt.Owner, Taken: now, Expires: now.Add(a.opt.Lease),
		})
		if mongo.IsDuplicateKeyError(err) {
			continue
		}
		l := &lease{a: a, filter: filter, n: n, tidy: tidy}
		if err == nil {
			err = l.settle(ctx)
		}
		if err != nil {
			a.end(filter, ended{n: n}) // not tidy: if the insert failed, n may be another's
			return nil, err
		}
		return l, nil
	}
	return nil, last.err()
}

// settle sees that no higher number is there, which is so when this process stood
// still for long between its look and its insert, and removes the lower ones.
func (l *lease) settle(ctx context.Context) error {
	last, err := l.a.lastLease(ctx, l.filter)
	if err != nil {
		return err
	}
	ctx, cancel := l.a.bound(ctx, 1)
	defer cancel()
	if last.N != l.n {
		_, _ = l.a.leases.DeleteOne(ctx, l.self()) // without it, the next higher lease does it
		return last.err()
	}
	_, err = l.a.leases.DeleteMany(ctx, bson.D{
		{Key: "filter", Value: l.filter},
		{Key: "n", Value: bson.D{{Key: "$lt", Value: l.n}}},
	})
	return explain(ctx, err)
}

func (l *lease) self() bson.D { return bson.D{{Key: "_id", Value: versionID(l.filter, l.n)}} }

func (a *Archive) insertLease(ctx context.Context, d leaseDoc) error {
	ctx, cancel := a.bound(ctx, 1)
	defer cancel()
	_, err := a.leases.InsertOne(ctx, d)
	if mongo.IsDuplicateKeyError(err) {
		return err
	}
	return explain(ctx, err)
}

func (a *Archive) lastLease(ctx context.Context, filter string) (leaseDoc, error) {
	ctx, cancel := a.bound(ctx, 1)
	defer cancel()
	var d leaseDoc
	err := a.leases.FindOne(ctx, bson.D{{Key: "filter", Value: filter}},
		options.FindOne().SetSort(bson.D{{Key: "n", Value: -1}})).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return leaseDoc{}, nil
	}
	return d, explain(ctx, err)
}

// hold renews the lease until stop is called. The context that it returns ends, with
// an *OvertakenError as its cause, when the lease is lost. A renewal that is under way is
// waited for by stop: cut off, it could reach the server after the release and undo it.
func (l *lease) hold(ctx context.Context) (_ context.Context, stop func()) {
	work, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(l.a.opt.Lease / 4)
		defer tick.Stop()
		renewed := time.Now()
		for {
			select {
			case <-work.Done():
				return
			case <-tick.C:
			}
			err := l.renew(work)
			switch {
			case err == nil:
				renewed = time.Now()
			case errors.As(err, new(*OvertakenError)), time.Since(renewed) > l.a.opt.Lease:
				cancel(&OvertakenError{Filter: l.filter})
				return
			case work.Err() == nil:
				l.a.opt.Log.Warn("lease not renewed", "filter", l.filter, "err", err)
			}
		}
	})
	return work, func() {
		cancel(nil)
		wg.Wait()
	}
}

// renew moves the end of the lease. It returns an *OvertakenError when the lease is
// another's. What it has begun to change it does to the end, whatever becomes of ctx.
func (l *lease) renew(ctx context.Context) error {
	now, err := l.a.serverTime(ctx)
	if err != nil {
		return err
	}
	if err := l.a.fault("renew"); err != nil {
		return err
	}
	return l.update(context.WithoutCancel(ctx), bson.D{{Key: "expires", Value: now.Add(l.a.opt.Lease)}})
}

// current tells, by an *OvertakenError, whether another has taken a lease since.
func (l *lease) current(ctx context.Context) error {
	last, err := l.a.lastLease(ctx, l.filter)
	if err == nil && last.N != l.n {
		err = &OvertakenError{Filter: l.filter}
	}
	return err
}

// blame finds out whether err, of work under the lease, comes of the lease's loss: who
// took over has removed files that this one was about to use.
func (l *lease) blame(ctx, work context.Context, err error) error {
	if cause := context.Cause(work); cause != nil {
		return cause
	}
	if overtaken, ok := errors.AsType[*OvertakenError](l.current(ctx)); ok {
		return overtaken
	}
	return err
}

// release ends the lease. tidy says that this writeback left nothing behind. On an error
// others wait until it expires.
func (l *lease) release(ctx context.Context, tidy bool) error {
	l.a.end(l.filter, ended{l.n, tidy})
	if err := l.a.fault("release"); err != nil {
		return err
	}
	return l.update(context.WithoutCancel(ctx), bson.D{
		{Key: "expires", Value: time.Unix(0, 0)},
		{Key: "tidy", Value: tidy},
	})
}

func (l *lease) update(ctx context.Context, fields bson.D) error {
	ctx, cancel := l.a.bound(ctx, 1)
	defer cancel()
	res, err := l.a.leases.UpdateOne(ctx, l.self(), bson.D{{Key: "$set", Value: fields}})
	switch {
	case err != nil:
		return explain(ctx, err)
	case res.MatchedCount == 0:
		return &OvertakenError{Filter: l.filter}
	}
	return nil
}

// fence takes the next number of a version, for no version. Whoever had the lease
// before, and may only seem to be dead, has read the highest number while the lease was
// its own (see look), so that the number it is about to insert is this one or one before
// it, and taken. So it cannot publish a version which lacks what the present holder
// publishes, or whose files the present holder removed.
func (l *lease) fence(ctx context.Context, token string) error {
	if err := l.a.fault("fence"); err != nil {
		return err
	}
	for range 10 {
		highest, err := l.a.highestNumber(ctx, l.filter)
		if err != nil {
			return err
		}
		err = l.a.insertVersion(ctx, &versionDoc{
			ID: versionID(l.filter, highest+1), Format: documentFormat, BitmapType: bitmapType{Name: l.filter},
			Status: statusOff, Number: highest + 1, Created: time.Now().UTC(), Owner: l.a.opt.Owner, Token: token, Fence: true,
		})
		if mongo.IsDuplicateKeyError(err) {
			continue // the other was quicker, and has its one version now
		}
		return err
	}
	return fmt.Errorf("filter %s: others take every number of a version", l.filter)
}
