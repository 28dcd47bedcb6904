package archive

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

var errFault = errors.New("fault")

// TestFaultAtEveryStep makes a writeback fail before each of its steps, one after the
// other. Each time the archive has either the previous version or the new one, whole,
// and the next writeback, by another owner, leaves everything in order.
func TestFaultAtEveryStep(t *testing.T) {
	onServers(t, func(t *testing.T, r *rig) {
		r.opt.Keep = 2
		h := header(1)
		acknowledged := newSet(t, h) // bits of writebacks that succeeded
		everything := newSet(t, h)
		var labels []string
		n := uint64(0)
		other := r.open(as("other:2"))
		buf := make([]byte, h.Bytes())
		add := func(s *set) *set {
			n++
			everything.add(key(h, 0, n))
			return s.add(key(h, 0, n))
		}
		// Each round begins with a version of another owner, so that there is a merge,
		// and with the remains of a dead writeback, so that there are a fence and a search.
		for at := 1; ; at++ {
			theirs := add(newSet(t, h))
			r.write(other, "uri", theirs)
			if err := acknowledged.MergeStripe(context.Background(), 0, theirs.Map.Stripe(0, buf)); err != nil {
				t.Fatal(err)
			}
			r.leaveUntidy(add(newSet(t, h)))

			var steps []string
			var mu sync.Mutex
			failing := r.open(as("failing:1"), func(o *Options) {
				o.Fault = func(label string) error {
					if label == "renew" { // not a step: it comes when it is due
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					if steps = append(steps, label); len(steps) == at {
						return errFault
					}
					return nil
				}
			})
			ours := add(newSet(t, h))
			_, err := failing.Writeback(context.Background(), spec("uri"), ours, nil)
			if len(steps) < at {
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				break // no step is left
			}
			last := steps[at-1]
			labels = append(labels, last)
			switch {
			case err == nil && !slices.Contains([]string{"prune-versions", "prune-files", "prune-chunks", "release"}, last):
				t.Errorf("fault at %s: no error", last)
			case err != nil && !errors.Is(err, errFault):
				t.Errorf("fault at %s: %v", last, err)
			case err == nil:
				if err := acknowledged.MergeStripe(context.Background(), 0, ours.Map.Stripe(0, buf)); err != nil {
					t.Fatal(err)
				}
			}
			got, _ := r.restored(other, "uri")
			if err := got.MergeStripe(context.Background(), 0, acknowledged.Map.Stripe(0, buf)); err != nil {
				t.Fatal(err)
			}
			again, _ := r.restored(other, "uri")
			sameContent(t, again, got) // it had all that was acknowledged

			r.expireLease(other) // a fault at release leaves the lease
			r.write(other, "uri", newSet(t, h))
			r.noOrphans(other)
		}
		for _, want := range []string{
			"lease", "latest", "fence", "download", "upload", "file", "uploaded", "verify", "switch", "switched",
			"prune-versions", "prune-files", "prune-chunks", "release",
		} {
			if !slices.Contains(labels, want) {
				t.Errorf("no fault at %s; faults at %v", want, labels)
			}
		}
	})
}

// leaveUntidy acts like a writeback that dies in the middle of an upload.
func (r *rig) leaveUntidy(src Source) {
	r.t.Helper()
	a := r.open(as("dead:3"), func(o *Options) {
		o.Fault = func(label string) error {
			if label == "file" || label == "release" {
				return errFault
			}
			return nil
		}
	})
	if _, err := a.Writeback(context.Background(), spec("uri"), src, nil); !errors.Is(err, errFault) {
		r.t.Fatalf("%v, want the fault", err)
	}
	if files, chunks := r.files(a); len(files) >= len(chunks) {
		r.t.Fatalf("%d files, %d chunks: nothing was left behind", len(files), len(chunks))
	}
	r.expireLease(a)
}

// TestFailureIsRemembered: a writeback that fails and releases its lease after it may
// have left something behind makes the next one clean up and fence; one that fails
// earlier does not.
func TestFailureIsRemembered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		label string
		fresh bool // whether anything must be uploaded
		tidy  bool
	}{
		{"latest", true, true},
		{"upload", true, false},
		{"file", true, false},
		{"switched", false, false},
		{"prune-files", false, false},
	} {
		t.Run(c.label, func(t *testing.T) {
			onServers(t, func(t *testing.T, r *rig) {
				a := r.open()
				h := header(1)
				src := newSet(t, h).add(key(h, 0, 1))
				r.write(a, "uri", src)
				failing := r.open(func(o *Options) {
					o.Fault = func(label string) error {
						if label == c.label {
							return errFault
						}
						return nil
					}
				})
				if c.fresh {
					src.add(key(h, 0, 2))
				}
				_, err := failing.Writeback(context.Background(), spec("uri"), src, nil)
				if err != nil && !errors.Is(err, errFault) {
					t.Fatal(err)
				}
				last, err := a.lastLease(context.Background(), "uri")
				if err != nil {
					t.Fatal(err)
				}
				if last.Tidy != c.tidy {
					t.Errorf("tidy %v, want %v", last.Tidy, c.tidy)
				}
				r.write(a, "uri", src)
				r.noOrphans(a)
			})
		})
	}
}
