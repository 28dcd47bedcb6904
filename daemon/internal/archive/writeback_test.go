package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

func TestRoundTrip(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open(as("here:1"))
		small, large := header(1), header(5)
		for name, src := range map[string]*set{
			"small": newSet(t, small).add(key(small, 0, 1), key(small, 0, 2)),
			"empty": newSet(t, small),
			"large": newSet(t, large).add(key(large, 0, 1), key(large, 2, 2), key(large, 4, 3)),
		} {
			t.Run(name, func(t *testing.T) {
				var steps []int
				before := time.Now()
				written, err := a.Writeback(context.Background(), spec(name), src, func(i, of int) {
					if of != src.Header().Stripes() {
						t.Errorf("progress: of %d, want %d", of, src.Header().Stripes())
					}
					steps = append(steps, i)
				})
				if err != nil {
					t.Fatal(err)
				}
				if n := src.Header().Stripes(); len(steps) != n || steps[n-1] != n {
					t.Errorf("progress %v, want 1 to %d", steps, n)
				}
				got, v := r.restored(a, name)
				sameContent(t, got, src)
				if err := a.Verify(context.Background(), v, nil); err != nil {
					t.Errorf("verify: %v", err)
				}
				if v.Spec != spec(name) || v.ID != name+"-1" || !v.On || v.Owner != "here:1" {
					t.Errorf("version %+v", v)
				}
				if v.Header != src.Header() || v.Stripes != src.Header().Stripes() || v.Bytes != int64(src.Header().Bytes()) {
					t.Errorf("version %+v", v)
				}
				if v.Items != src.Fill().Items {
					t.Errorf("%d items, the map says %d", v.Items, src.Fill().Items)
				}
				if v.Created.Before(before.Add(-time.Second)) || v.Created.After(time.Now()) {
					t.Errorf("created %v", v.Created)
				}
				if fmt.Sprint(v) != fmt.Sprint(written) {
					t.Errorf("Latest:    %v\nWriteback: %v", v, written)
				}
			})
		}
		r.noOrphans(a)
	})
}

func TestNone(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open()
		if _, err := a.Latest(context.Background(), "uri"); !errors.Is(err, ErrNone) {
			t.Errorf("Latest of nothing: %v, want ErrNone", err)
		}
		if all, err := a.Versions(context.Background(), ""); len(all) != 0 || err != nil {
			t.Errorf("Versions of nothing: %v, %v", all, err)
		}
	})
}

func TestOnlyChangedStripesAreSent(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open()
		h := header(5)
		src := newSet(t, h).add(key(h, 0, 1), key(h, 2, 1))
		const stripe = bloom.StripeBytes
		if v := r.write(a, "uri", src); v.Uploaded != 2*stripe {
			t.Errorf("first: %d bytes sent, want 2 stripes of 5", v.Uploaded)
		}
		first, _ := r.files(a)
		if v := r.write(a, "uri", src); v.Uploaded != 0 {
			t.Errorf("unchanged: %d bytes sent, want 0", v.Uploaded)
		}
		src.add(key(h, 2, 2), key(h, 4, 1))
		if v := r.write(a, "uri", src); v.Uploaded != stripe+64*1024 {
			t.Errorf("two changed: %d bytes sent, want one stripe and the short last", v.Uploaded)
		}
		if files, _ := r.files(a); len(files) != len(first)+2 {
			t.Errorf("%d files, want %d", len(files), len(first)+2)
		}
		got, _ := r.restored(a, "uri")
		sameContent(t, got, src)
	})
}

func TestMergesByOr(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		h := header(4)
		one, two := r.open(as("one:1")), r.open(as("two:2"))
		mine := newSet(t, h).add(key(h, 0, 1), key(h, 3, 1))
		theirs := newSet(t, h).add(key(h, 3, 2), key(h, 2, 2))
		r.write(one, "uri", mine)
		v := r.write(two, "uri", theirs)
		if v.Uploaded != bloom.StripeBytes+64*1024 {
			t.Errorf("%d bytes sent, want the stripe that both have, the short last, and the one that only this has", v.Uploaded)
		}
		both := newSet(t, h).add(key(h, 0, 1), key(h, 3, 1), key(h, 3, 2), key(h, 2, 2))
		got, _ := r.restored(one, "uri")
		sameContent(t, got, both)
		if want := both.Fill().Items; v.Items != want {
			t.Errorf("%d items, want %d: those of both", v.Items, want)
		}
		// The archive lacks nothing of it: nothing is sent, and nothing is lost.
		if v := r.write(one, "uri", mine); v.Uploaded != 0 {
			t.Errorf("%d bytes sent, want 0", v.Uploaded)
		}
		got, _ = r.restored(one, "uri")
		sameContent(t, got, both)
	})
}

func TestNewerGenerationStartsAfresh(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open()
		h := header(3)
		old := newSet(t, h).add(key(h, 1, 1), key(h, 2, 1))
		r.write(a, "uri", old)
		next := header(2) // a reset may change everything else, too
		next.Generation, next.Seed = 2, 43
		r.write(a, "uri", newSet(t, next).add(key(next, 1, 9)))
		got, v := r.restored(a, "uri")
		sameContent(t, got, newSet(t, next).add(key(next, 1, 9)))
		if v.Header.Generation != 2 {
			t.Errorf("generation %d, want 2", v.Header.Generation)
		}
		// A bit-map that missed the reset must not bring the old items back.
		_, err := a.Writeback(context.Background(), spec("uri"), old, nil)
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "is of generation 2, the bit-map here of 1") {
			t.Errorf("older generation: %v, want a *MismatchError that names both", err)
		}
		got, _ = r.restored(a, "uri")
		sameContent(t, got, newSet(t, next).add(key(next, 1, 9)))
	})
}

func TestOtherBitMapIsRefused(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open()
		h := header(2)
		src := newSet(t, h).add(key(h, 1, 1))
		r.write(a, "uri", src)
		files, _ := r.files(a)
		seed, size := h, header(3)
		seed.Seed = secretSeed + 1111
		for name, other := range map[string]bloom.Header{"seed": seed, "size": size} {
			t.Run(name, func(t *testing.T) {
				_, err := a.Writeback(context.Background(), spec("uri"), newSet(t, other).add(key(other, other.Stripes()-1, 5)), nil)
				var mismatch *MismatchError
				if !errors.As(err, &mismatch) || mismatch.Version != "uri-1" || !strings.Contains(err.Error(), "hint: ") {
					t.Fatalf("writeback: %v, want a *MismatchError of uri-1 with a hint", err)
				}
				if strings.Contains(err.Error(), "11223344556") {
					t.Errorf("tells the secret seed: %v", err)
				}
				v, err := a.Latest(context.Background(), "uri")
				if err != nil {
					t.Fatal(err)
				}
				sink := newSet(t, other)
				if err := a.Restore(context.Background(), v, sink, nil); !errors.As(err, &mismatch) {
					t.Errorf("restore: %v, want a *MismatchError", err)
				}
				if sink.merged != 0 || sink.committed != 0 {
					t.Errorf("restore: %d stripes merged, %d commits, want none", sink.merged, sink.committed)
				}
			})
		}
		if now, _ := r.files(a); !slices.Equal(now, files) {
			t.Errorf("files %v, want %v as before", now, files)
		}
		got, v := r.restored(a, "uri")
		sameContent(t, got, src)
		if v.ID != "uri-1" {
			t.Errorf("newest version %s, want uri-1", v.ID)
		}

		// The repair that the hint names.
		if _, err := a.versions.UpdateMany(context.Background(), bson.M{"bitmap_type.name": "uri"}, bson.M{"$set": bson.M{"status": "off"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Latest(context.Background(), "uri"); !errors.Is(err, ErrNone) {
			t.Errorf("Latest with all switched off: %v, want ErrNone", err)
		}
		if v := r.write(a, "uri", newSet(t, seed).add(key(seed, 1, 5))); v.ID != "uri-2" {
			t.Errorf("version %s, want uri-2", v.ID)
		}
		got, _ = r.restored(a, "uri")
		sameContent(t, got, newSet(t, seed).add(key(seed, 1, 5)))
		all, err := a.Versions(context.Background(), "uri")
		if err != nil || len(all) != 2 || !all[0].On || all[1].On {
			t.Errorf("versions %v, %v; want the new one on, the old one off", all, err)
		}
	})
}

func TestEmptiedMeanwhile(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open()
		h := header(2)
		src := newSet(t, h).add(key(h, 1, 1))
		calls := 0
		src.header = func() bloom.Header {
			now := h
			if calls++; calls > 1 {
				now.Generation++
			}
			return now
		}
		if _, err := a.Writeback(context.Background(), spec("uri"), src, nil); err == nil || !strings.Contains(err.Error(), "emptied while") {
			t.Errorf("writeback: %v", err)
		}
		if _, err := a.Latest(context.Background(), "uri"); !errors.Is(err, ErrNone) {
			t.Errorf("Latest: %v, want ErrNone", err)
		}
		src.header = nil
		r.write(a, "uri", src)
		r.noOrphans(a)
	})
}

func TestKeep(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open(func(o *Options) { o.Keep = 2 })
		h := header(2)
		src, other := newSet(t, h), newSet(t, h).add(key(h, 1, 1))
		r.write(a, "other", other)
		for i := range uint64(5) { // mostly the second stripe, which is short
			r.write(a, "uri", src.add(key(h, int((i+1)%2), i)))
		}
		var ids []string
		all, err := a.Versions(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range all {
			ids = append(ids, v.ID)
		}
		if want := []string{"other-1", "uri-5", "uri-4"}; !slices.Equal(ids, want) {
			t.Errorf("versions %v, want %v", ids, want)
		}
		r.noOrphans(a)
		got, _ := r.restored(a, "uri")
		sameContent(t, got, src)
		before := newSet(t, h).add(key(h, 1, 0), key(h, 0, 1), key(h, 1, 2), key(h, 0, 3))
		older := newSet(t, h)
		if err := a.Restore(context.Background(), all[2], older, nil); err != nil {
			t.Fatal(err)
		}
		sameContent(t, older, before)
		got, _ = r.restored(a, "other")
		sameContent(t, got, other)
	})
}

// TestNamesThatBeginAlike has filters whose files must not be mistaken for each other's.
func TestNamesThatBeginAlike(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open(func(o *Options) { o.Keep = 1 })
		h := header(1)
		names := []string{"uri", "uri-1", "uri_generator", "uri.x", "ur"}
		for i, name := range names {
			r.write(a, name, newSet(t, h).add(key(h, 0, uint64(i))))
		}
		for i, name := range names {
			r.write(a, name, newSet(t, h).add(key(h, 0, uint64(100+i))))
		}
		r.noOrphans(a)
		for i, name := range names {
			got, _ := r.restored(a, name)
			sameContent(t, got, newSet(t, h).add(key(h, 0, uint64(i)), key(h, 0, uint64(100+i))))
		}
	})
}

func TestSourceFails(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		a := r.open()
		broken := errors.New("store is gone")
		if _, err := a.Writeback(context.Background(), spec("uri"), failing{newSet(t, header(2)), broken}, nil); !errors.Is(err, broken) {
			t.Errorf("%v, want the source's error", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		h := header(3)
		src := newSet(t, h).add(key(h, 0, 1), key(h, 2, 1))
		if _, err := a.Writeback(ctx, spec("uri"), src, func(int, int) { cancel() }); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		// Both released the lease.
		r.write(a, "uri", src)
		r.noOrphans(a)
	})
}

type failing struct {
	*set
	err error
}

func (f failing) Stripe(context.Context, int, []byte) ([]byte, error) { return nil, f.err }
