package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// known is a download.WholeBody, or claims not to be one.
type known struct {
	bytes []byte
	is    bool
	r     io.Reader
}

func (k *known) Read(p []byte) (int, error) { return k.r.Read(p) }

func (k *known) Whole() ([]byte, [sha256.Size]byte, bool) {
	return k.bytes, sha256.Sum256(k.bytes), k.is
}

// A WholeBody is stored without being read; one that is too large for the database, or reports ok
// as false, is read.
func TestWholeBody(t *testing.T) {
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), Inline: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	j, err := s.AddJob(t.Context(), download.Job{Name: "a", On: true, Setting: download.Setting{Lane: download.Normal, MaxAttempts: 1, Dispatch: 9}})
	if err != nil {
		t.Fatal(err)
	}
	unread := func() io.Reader { return io.MultiReader(&failing{t}) }
	text := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	bodies := map[string]*known{
		"http://a/empty":    {text(0), true, unread()},
		"http://a/small":    {text(1000), true, unread()},
		"http://a/large":    {text(1001), true, bytes.NewReader(text(1001))},
		"http://a/not-told": {text(10), false, bytes.NewReader(text(10))},
	}
	for uri := range bodies {
		if _, err := s.AddTasks(t.Context(), j.ID, []download.NewTask{{URI: uri, Shard: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.HandOut(t.Context(), j.ID, len(bodies), 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Lease(t.Context(), download.Want{Owner: "w", Max: len(bodies), For: time.Hour, Shards: []int{1}, Lanes: download.Lanes()})
	if err != nil || len(leases) != len(bodies) {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	for _, lease := range leases {
		if err := s.Finish(t.Context(), lease, download.Result{Status: 200, Body: bodies[lease.Task.URI]}, download.Attempt{Status: 200}); err != nil {
			t.Errorf("%s: %v", lease.Task.URI, err)
		}
	}
	stored := 0
	err = s.ListData(t.Context(), download.Query{Job: j.ID}, func(d download.Data) error {
		stored++
		want := bodies[d.TaskURI].bytes
		sum := sha256.Sum256(want)
		r, err := s.Body(t.Context(), d.Task)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r)
		if !bytes.Equal(got, want) || d.Size != int64(len(want)) || d.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: %d bytes, size %d, %s; want %d", d.TaskURI, len(got), d.Size, d.SHA256, len(want))
		}
		return errors.Join(err, r.Close())
	})
	if err != nil || stored != len(bodies) {
		t.Errorf("%d results, %v", stored, err)
	}
}

type failing struct{ t *testing.T }

func (f *failing) Read([]byte) (int, error) {
	f.t.Error("a body that knows itself was read")
	return 0, io.EOF
}

// The bytes of a WholeBody are the caller's again once the call has returned, and are reused: also if
// the call is cancelled while its change is written or waits, and if the change is refused or repeated.
func TestWholeBodyIsNotUsedAfterwards(t *testing.T) {
	s, err := Open(t.Context(), Options{Dir: t.TempDir(), Inline: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	j, err := s.AddJob(t.Context(), download.Job{Name: "a", On: true, Setting: download.Setting{Lane: download.Normal, MaxAttempts: 1, Dispatch: 9}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 40
	for i := range n {
		if _, err := s.AddTasks(t.Context(), j.ID, []download.NewTask{{URI: fmt.Sprintf("http://a/%d", i), Shard: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.HandOut(t.Context(), j.ID, n, 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Lease(t.Context(), download.Want{Owner: "w", Max: n, For: time.Hour, Shards: []int{1}, Lanes: download.Lanes()})
	if err != nil || len(leases) != n {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	broken := errors.New("a change that cannot be done")
	busy, begun := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var calls sync.WaitGroup
	calls.Go(func() { // the others wait behind this one, or are in its transaction, which is rolled back
		err := s.write(context.Background(), 1, func(*tx) error {
			once.Do(func() { close(begun) })
			<-busy
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	errs := make([]error, n)
	var returned atomic.Int32
	for i, lease := range leases {
		calls.Go(func() {
			ctx := ctx
			if i%2 == 0 { // the others are not cancelled
				ctx = t.Context()
			}
			mine := []byte(lease.Task.URI)
			errs[i] = s.Finish(ctx, lease, download.Result{Status: 200, Body: &known{mine, true, nil}}, download.Attempt{Status: 200})
			returned.Add(1)
			for at := range mine {
				mine[at] = '!'
			}
		})
	}
	for len(s.changes) < n {
		runtime.Gosched()
	}
	cancel()
	for range 1000 { // a call that did not wait for the writer would return now
		runtime.Gosched()
	}
	if early := returned.Load(); early > 0 {
		t.Errorf("%d calls returned while the writer had their bodies", early)
	}
	close(busy)
	calls.Wait()
	stored := 0
	for i, lease := range leases {
		if i%2 == 1 {
			if !errors.Is(errs[i], context.Canceled) {
				t.Errorf("%s: %v, want that it is cancelled", lease.Task.URI, errs[i])
			}
			continue
		}
		if errs[i] != nil {
			t.Fatalf("%s: %v", lease.Task.URI, errs[i])
		}
		r, err := s.Body(t.Context(), lease.Task.ID)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || string(got) != lease.Task.URI {
			t.Errorf("%s: stored %q, %v", lease.Task.URI, got, err)
		}
		stored++
	}
	if stored != n/2 {
		t.Errorf("%d bodies", stored)
	}
}
