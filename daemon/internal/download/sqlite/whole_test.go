package sqlite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// known is a body that knows all of itself, or says that it does not.
type known struct {
	bytes []byte
	is    bool
	r     io.Reader
}

func (k *known) Read(p []byte) (int, error) { return k.r.Read(p) }

func (k *known) Whole() ([]byte, [sha256.Size]byte, bool) {
	return k.bytes, sha256.Sum256(k.bytes), k.is
}

// A body that knows itself is stored without being read; one that is too large for the database, or does
// not know itself, is read.
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
