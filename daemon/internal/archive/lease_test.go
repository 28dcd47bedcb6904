package archive

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// pause is a Fault that stops at a label until it is told to go on.
type pause struct {
	label   string
	reached chan struct{}
	goOn    chan struct{}
	once    sync.Once
}

func pauseAt(label string) *pause {
	return &pause{label: label, reached: make(chan struct{}), goOn: make(chan struct{})}
}

func (p *pause) fault(label string) error {
	if label == p.label {
		p.once.Do(func() {
			close(p.reached)
			<-p.goOn
		})
	}
	return nil
}

func (p *pause) option(o *Options) { o.Fault = p.fault }

// start writes back until the pause.
func (r *rig) start(a *Archive, p *pause, src Source) (result chan error) {
	result = make(chan error, 1)
	go func() {
		_, err := a.Writeback(context.Background(), spec("uri"), src, nil)
		result <- err
	}()
	select {
	case <-p.reached:
	case <-time.After(2 * time.Minute):
		r.t.Fatalf("%s not reached", p.label)
	}
	return result
}

func TestLeaseIsHeld(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		p := pauseAt("upload")
		first, second := r.open(as("first:1"), p.option), r.open(as("second:2"))
		h := header(1)
		result := r.start(first, p, newSet(t, h).add(key(h, 0, 1)))
		theirs := newSet(t, h).add(key(h, 0, 2))
		_, err := second.Writeback(context.Background(), spec("uri"), theirs, nil)
		var held *LeaseError
		if !errors.As(err, &held) || held.Owner != "first:1" || held.Filter != "uri" || !strings.Contains(err.Error(), "first:1") {
			t.Fatalf("%v, want a *LeaseError that names first:1", err)
		}
		if left := time.Until(held.Until); left < 30*time.Second || left > 61*time.Second {
			t.Errorf("lease ends in %v, want about a minute", left)
		}
		if err := second.Held(context.Background(), "uri"); !errors.As(err, &held) || held.Owner != "first:1" {
			t.Errorf("Held: %v, want a *LeaseError that names first:1", err)
		}
		r.write(second, "other", theirs) // a lease is of one filter
		close(p.goOn)
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		if err := second.Held(context.Background(), "uri"); err != nil {
			t.Errorf("Held after the end: %v", err)
		}
		r.write(second, "uri", theirs)
		got, _ := r.restored(second, "uri")
		sameContent(t, got, newSet(t, h).add(key(h, 0, 1), key(h, 0, 2)))
		r.noOrphans(second)
	})
}

func TestLeaseIsRenewed(t *testing.T) {
	onServersAlone(t, func(t *testing.T, r *rig) {
		p := pauseAt("upload")
		short := leaseOfTime(400 * time.Millisecond)
		first, second := r.open(as("first:1"), p.option, short), r.open(short)
		h := header(1)
		result := r.start(first, p, newSet(t, h).add(key(h, 0, 1)))
		ctx := context.Background()
		begun, err := second.lastLease(ctx, "uri")
		if err != nil {
			t.Fatal(err)
		}
		for give := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
			now, err := second.lastLease(ctx, "uri")
			if err != nil || now.N != begun.N || now.Owner != "first:1" {
				t.Fatalf("lease %+v, %v; at first %+v", now, err, begun)
			}
			if now.Expires.Sub(begun.Expires) >= 3*400*time.Millisecond {
				break
			}
			if time.Now().After(give) {
				t.Fatalf("lease of %s still ends at %s", begun.Expires, now.Expires)
			}
		}
		close(p.goOn)
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	})
}

// TestExpiredLeaseIsTakenOver has a writeback stand still, at each step, for longer
// than its lease, while another does all of its work. The late one must not undo any
// of that, whatever it does when it comes back to life.
func TestExpiredLeaseIsTakenOver(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		for _, label := range []string{"latest", "download", "upload", "file", "uploaded", "switch", "switched", "prune-versions", "prune-files"} {
			t.Run(label, func(t *testing.T) {
				r := newRig(t, r.opt.URI)
				r.opt.Keep = 1
				h := header(1)
				r.write(r.open(), "uri", newSet(t, h).add(key(h, 0, 1)))

				p := pauseAt(label)
				late := r.open(as("late:1"), p.option, unrenewed)
				result := r.start(late, p, newSet(t, h).add(key(h, 0, 2)))
				r.expireLease(late)
				a := r.open(as("quick:2"))
				r.write(a, "uri", newSet(t, h).add(key(h, 0, 3)))
				r.write(a, "uri", newSet(t, h).add(key(h, 0, 4)))

				close(p.goOn)
				err := <-result
				published := label == "switched" || strings.HasPrefix(label, "prune")
				var overtaken *OvertakenError
				if published && err != nil || !published && !errors.As(err, &overtaken) {
					t.Errorf("the late one: %v", err)
				}
				want := newSet(t, h).add(key(h, 0, 1), key(h, 0, 3), key(h, 0, 4))
				if published {
					want.add(key(h, 0, 2))
				}
				got, _ := r.restored(a, "uri")
				sameContent(t, got, want)
				// What the late one left is removed by the next one; an old lease's
				// files are known as such.
				r.write(a, "uri", want.add(key(h, 0, 5)))
				got, _ = r.restored(a, "uri")
				sameContent(t, got, want)
			})
		}
	})
}

// unrenewed is of one who stands still: its lease, which a test ends, is not renewed meanwhile.
func unrenewed(o *Options) { o.Lease = 24 * time.Hour }

// expireLease makes all leases end as if their time were over.
func (r *rig) expireLease(a *Archive) {
	r.t.Helper()
	_, err := a.leases.UpdateMany(context.Background(), bson.M{}, bson.M{"$set": bson.M{"expires": time.Unix(1, 0)}})
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestLostLeaseEndsTheWork(t *testing.T) {
	onServersAlone(t, func(t *testing.T, r *rig) {
		late := r.open(leaseOfTime(200 * time.Millisecond))
		h := header(1)
		src := &standing{newSet(t, h).add(key(h, 0, 1)), late}
		_, err := late.Writeback(context.Background(), spec("uri"), src, nil)
		var overtaken *OvertakenError
		if !errors.As(err, &overtaken) {
			t.Errorf("%v, want an *OvertakenError", err)
		}
	})
}

// standing is a source that loses the lease when it is read, and then waits for the end
// of the work.
type standing struct {
	*set
	a *Archive
}

func (s *standing) Stripe(work context.Context, i int, buf []byte) ([]byte, error) {
	if _, err := s.a.leases.DeleteMany(context.Background(), bson.M{}); err != nil {
		return nil, err
	}
	select {
	case <-work.Done():
		return s.set.Stripe(work, i, buf)
	case <-time.After(2 * time.Minute):
		return nil, errors.New("the work goes on a minute after its lease was lost")
	}
}

// TestManyAtOnce has several daemons write back until each has been served.
func TestManyAtOnce(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		h := header(1)
		want := newSet(t, h)
		var wg sync.WaitGroup
		for i := range uint64(4) {
			a := r.open(as("daemon:" + string(rune('0'+i))))
			src := newSet(t, h).add(key(h, 0, i))
			want.add(key(h, 0, i))
			wg.Go(func() {
				for {
					_, err := a.Writeback(context.Background(), spec("uri"), src, nil)
					var held *LeaseError
					if !errors.As(err, &held) {
						if err != nil {
							t.Error(err)
						}
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		a := r.open()
		got, v := r.restored(a, "uri")
		sameContent(t, got, want)
		if v.ID != "uri-4" {
			t.Errorf("newest version %s, want uri-4", v.ID)
		}
		r.noOrphans(a)
	})
}

// TestLateInsertOfALease: who stood still between its look and its insert gets a number
// that was given before, and must see that.
func TestLateInsertOfALease(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open()
		ctx := context.Background()
		for range 3 {
			l, err := a.acquire(ctx, "uri")
			if err != nil {
				t.Fatal(err)
			}
			if err := l.release(ctx, true); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.insertLease(ctx, leaseDoc{ID: "uri-2", Filter: "uri", N: 2, Owner: "late:1"}); err != nil {
			t.Fatal(err)
		}
		late := &lease{a: a, filter: "uri", n: 2}
		var held *LeaseError
		if err := late.settle(ctx); !errors.As(err, &held) {
			t.Errorf("a late lease: %v, want a *LeaseError", err)
		}
		l, err := a.acquire(ctx, "uri")
		if err != nil || l.n != 4 {
			t.Errorf("next lease %+v, %v; want number 4", l, err)
		}
	})
}

// TestLostAnswer: an insert that was done although its answer was lost is no error when
// it was ours, and is one when the number is another's.
func TestLostAnswer(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open()
		ctx := context.Background()
		d := &versionDoc{ID: "uri-1", Format: documentFormat, Number: 1, Token: "mine", BitmapType: bitmapType{Name: "uri"}}
		if _, err := a.versions.InsertOne(ctx, d); err != nil {
			t.Fatal(err)
		}
		if err := a.insertVersion(ctx, d); err != nil {
			t.Errorf("ours: %v", err)
		}
		d.Token = "another"
		if err := a.insertVersion(ctx, d); !mongo.IsDuplicateKeyError(err) {
			t.Errorf("another's: %v, want a duplicate key", err)
		}
	})
}

// TestLatePruneSparesUploads has a writeback that was taken over prune while the other
// has uploaded what no version has yet.
func TestLatePruneSparesUploads(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		for _, label := range []string{"prune-versions", "prune-files", "prune-chunks"} {
			r := newRig(t, r.opt.URI)
			r.opt.Keep = 1
			h := header(1)
			r.leaveUntidy(newSet(t, h).add(key(h, 0, 9))) // so that the late one looks for chunks
			pLate, pQuick := pauseAt(label), pauseAt("switch")
			late, quick := r.open(as("late:1"), pLate.option, unrenewed), r.open(as("quick:2"), pQuick.option)
			lateResult := r.start(late, pLate, newSet(t, h).add(key(h, 0, 1)))
			r.expireLease(late)
			quickResult := r.start(quick, pQuick, newSet(t, h).add(key(h, 0, 2)))
			close(pLate.goOn)
			if err := <-lateResult; err != nil {
				t.Errorf("%s: the late one: %v", label, err)
			}
			close(pQuick.goOn)
			if err := <-quickResult; err != nil {
				t.Errorf("%s: the other: %v", label, err)
			}
			got, _ := r.restored(quick, "uri")
			sameContent(t, got, newSet(t, h).add(key(h, 0, 1), key(h, 0, 2)))
			r.noOrphans(quick)
		}
	})
}
