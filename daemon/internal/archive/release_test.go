package archive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// TestOwnLeaseIsNotWaitedFor has writebacks that cannot release their lease: others must
// wait until it expires; the process itself does not wait, and knows that it need not fence.
func TestOwnLeaseIsNotWaitedFor(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		failing := r.open(as("first:1"), func(o *Options) {
			o.Fault = func(label string) error {
				if label == "release" {
					return errFault
				}
				return nil
			}
		})
		second := r.open(as("second:2"))
		h := header(1)
		src := newSet(t, h)
		for i := range uint64(3) {
			v := r.write(failing, "uri", src.add(key(h, 0, i)))
			if v.number != int64(i)+1 {
				t.Errorf("version %s of writeback %d: a number was fenced", v.ID, i+1)
			}
			if err := failing.Held(context.Background(), "uri"); err != nil {
				t.Errorf("Held of a lease without work: %v", err)
			}
			var held *LeaseError
			if _, err := second.Writeback(context.Background(), spec("uri"), src, nil); !errors.As(err, &held) || held.Owner != "first:1" {
				t.Fatalf("%v, want a *LeaseError that names first:1", err)
			}
		}
		r.expireLease(second)
		r.write(second, "uri", src)
		last, err := second.lastLease(context.Background(), "uri")
		if err != nil {
			t.Fatal(err)
		}
		if failing.inUse(&last, time.Now()) {
			t.Errorf("lease %+v is called held", last) // the other has released it
		}
		r.noOrphans(second)
	})
}

// TestWritebackAfterALostAnswer cuts the connection of a writeback at each of its steps, after
// some bytes of answers. Whichever call's answer was lost, the next writeback of the process
// does not wait for a lease.
func TestWritebackAfterALostAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, mongotest.Shared(t).URI())
	addr, params, _ := strings.Cut(strings.TrimPrefix(r.opt.URI, "mongodb://"), "/")
	link := testserver.NewCutter(t, addr)
	var at string
	var after int
	a := r.open(as("cut:1"), func(o *Options) {
		o.URI = "mongodb://" + link.Addr + "/" + params
		o.Fault = func(label string) error {
			if label == at {
				link.CutOnce(after)
			}
			return nil
		}
	})
	h := header(1)
	src := newSet(t, h)
	n := uint64(0)
	write := func() error {
		n++
		_, err := a.Writeback(context.Background(), spec("uri"), src.add(key(h, 0, n)), nil)
		return err
	}
	for label, most := range map[string]int{"lease": 750, "latest": 0, "upload": 0, "verify": 0, "switch": 0, "prune-files": 0, "release": 0} {
		for after = 0; after <= most; after += 30 {
			cuts := link.Cuts()
			at = label
			first := write()
			at = ""
			link.Pass()
			if link.Cuts() == cuts {
				t.Errorf("%s, %d bytes: no answer was cut", label, after)
			}
			if err := write(); err != nil {
				t.Errorf("%s: cut after %d bytes of answers (%v), and then: %v", label, after, first, err)
			}
		}
	}
	got, _ := r.restored(r.open(), "uri")
	sameContent(t, got, src)
}

// TestRenewalEndsBeforeTheRelease: a renewal that has begun is not cut off when the work
// ends, because the server could otherwise carry it out after the release.
func TestRenewalEndsBeforeTheRelease(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		p := pauseAt("renew")
		a := r.open(p.option, leaseOfTime(time.Second))
		ctx := context.Background()
		l, err := a.acquire(ctx, "uri")
		if err != nil {
			t.Fatal(err)
		}
		before, err := a.lastLease(ctx, "uri")
		if err != nil {
			t.Fatal(err)
		}
		work, stop := l.hold(ctx)
		<-p.reached
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		<-work.Done()
		select {
		case <-stopped:
			t.Fatal("the end of the work did not wait for the renewal")
		default:
		}
		close(p.goOn)
		<-stopped
		after, err := a.lastLease(ctx, "uri")
		if err != nil {
			t.Fatal(err)
		}
		if !after.Expires.After(before.Expires) {
			t.Errorf("the lease ends at %v, as before: the renewal was cut off", after.Expires)
		}
		if err := l.release(ctx, true); err != nil {
			t.Fatal(err)
		}
	})
}
