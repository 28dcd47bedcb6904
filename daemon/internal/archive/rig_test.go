package archive

import (
	"bytes"
	"context"
	"log/slog"
	"math/bits"
	"os"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		victim()
		return
	}
	os.Exit(m.Run())
}

// onServers runs a test on FerretDB and on the server that the environment names, in parallel
// with other tests.
func onServers(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	onServersAlone(t, f)
}

// onServersAlone is onServers for a test whose leases are so short that they would end if many
// tests ran at once.
func onServersAlone(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run("ferretdb", func(t *testing.T) { f(t, newRig(t, mongotest.Shared(t).URI())) })
	if uri := os.Getenv(mongotest.EnvURI); uri != "" {
		t.Run("given", func(t *testing.T) { f(t, newRig(t, uri)) })
	}
}

// rig is a server and a database on it that only this rig uses.
type rig struct {
	t   *testing.T
	opt Options
}

func newRig(t *testing.T, uri string) *rig {
	t.Helper()
	r := &rig{t, Options{URI: uri, Database: "urifilter_test_" + newToken(), Keep: 3, Timeout: 30 * time.Second,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}}
	if uri == os.Getenv(mongotest.EnvURI) {
		t.Cleanup(func() {
			a := r.open()
			_ = a.versions.Database().Drop(context.Background()) // the server stays
		})
	}
	return r
}

// open makes another connection, after it has applied changes to the options.
func (r *rig) open(changes ...func(*Options)) *Archive {
	r.t.Helper()
	o := r.opt
	for _, change := range changes {
		change(&o)
	}
	a, err := Open(context.Background(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

func as(owner string) func(*Options)             { return func(o *Options) { o.Owner = owner } }
func leaseOfTime(d time.Duration) func(*Options) { return func(o *Options) { o.Lease = d } }

func spec(name string) engine.Spec {
	return engine.Spec{ID: 3, Name: name, Kind: "bloom", Params: configs.Bloom{Capacity: 100, ErrorRate: 0.01, OnFull: "warn"}}
}

// set is a bit-map in memory, as a Source and a Sink.
type set struct {
	*bloom.Map
	committed int
	merged    int
	header    func() bloom.Header // what Header says, when not nil
}

func (s *set) Stripe(_ context.Context, i int, buf []byte) ([]byte, error) {
	return s.Map.Stripe(i, buf), nil
}

func (s *set) MergeStripe(_ context.Context, i int, data []byte) error {
	s.merged++
	return s.Map.MergeStripe(i, data)
}

func (s *set) Commit(context.Context) error { s.committed++; return nil }

func (s *set) Header() bloom.Header {
	if s.header != nil {
		return s.header()
	}
	return s.Map.Header()
}

// secretSeed is recognized by its digits wherever it is printed.
const secretSeed = 1122334455667788

// header returns the header of a map with that many stripes, the last of them short.
func header(stripes int) bloom.Header {
	const perStripe = bloom.StripeBytes / 64
	return bloom.Header{
		Blocks: uint64(stripes-1)*perStripe + 1024, Capacity: 1000, ErrorRate: 0.01,
		Seed: secretSeed, Generation: 1, Created: time.Unix(1700000000, 5).UTC(),
	}
}

func newSet(t testing.TB, h bloom.Header) *set {
	t.Helper()
	m, err := bloom.New(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return &set{Map: m}
}

// key returns a key whose bits are in the given stripe; n makes it differ from others.
func key(h bloom.Header, stripe int, n uint64) bloom.Hash {
	block := uint64(stripe)*(bloom.StripeBytes/64) + n%1000
	hi, _ := bits.Div64(block, 1<<63, h.Blocks)
	return bloom.Hash{Hi: hi, Lo: bloom.Sum(n, []byte("bits")).Lo}
}

func (s *set) add(keys ...bloom.Hash) *set {
	s.Add(keys, make([]bool, len(keys)))
	return s
}

// lacks counts the keys that are not in the set.
func (s *set) lacks(keys ...bloom.Hash) int {
	fresh := make([]bool, len(keys))
	s.Has(keys, fresh)
	n := 0
	for _, f := range fresh {
		if f {
			n++
		}
	}
	return n
}

func (r *rig) write(a *Archive, name string, src Source) Version {
	r.t.Helper()
	v, err := a.Writeback(context.Background(), spec(name), src, nil)
	if err != nil {
		r.t.Fatalf("writeback: %v", err)
	}
	return v
}

// restored restores the newest version into a new set, and returns both.
func (r *rig) restored(a *Archive, name string) (*set, Version) {
	r.t.Helper()
	ctx := context.Background()
	v, err := a.Latest(ctx, name)
	if err != nil {
		r.t.Fatalf("latest: %v", err)
	}
	s := newSet(r.t, v.Header)
	if err := a.Restore(ctx, v, s, nil); err != nil {
		r.t.Fatalf("restore: %v", err)
	}
	if s.committed != 1 {
		r.t.Fatalf("%d commits, want 1", s.committed)
	}
	return s, v
}

func sameContent(t testing.TB, got, want *set) {
	t.Helper()
	if got.Header() != want.Header() {
		t.Fatalf("header %+v, want %+v", got.Header(), want.Header())
	}
	a, b := make([]byte, bloom.StripeBytes), make([]byte, bloom.StripeBytes)
	for i := range want.Header().Stripes() {
		if !bytes.Equal(got.Map.Stripe(i, a), want.Map.Stripe(i, b)) {
			t.Errorf("stripe %d differs", i)
		}
	}
}

// files returns the ids in the bucket, each once: those of the files, and those of the files that
// the chunks belong to.
func (r *rig) files(a *Archive) (files, chunks []string) {
	r.t.Helper()
	ids := func(c *mongo.Collection, field string) []string {
		cursor, err := c.Find(context.Background(), bson.D{}, options.Find().SetProjection(bson.D{{Key: field, Value: 1}}))
		if err != nil {
			r.t.Fatal(err)
		}
		var docs []bson.M
		if err := cursor.All(context.Background(), &docs); err != nil {
			r.t.Fatal(err)
		}
		var all []string
		for _, d := range docs {
			all = append(all, d[field].(string))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	return ids(a.files, "_id"), ids(a.chunks, "files_id")
}

// noOrphans checks that the bucket has exactly the files of the versions.
func (r *rig) noOrphans(a *Archive) {
	r.t.Helper()
	versions, err := a.Versions(context.Background(), "")
	if err != nil {
		r.t.Fatal(err)
	}
	var used []string
	for _, v := range versions {
		for _, s := range v.stripes {
			if s.File != "" {
				used = append(used, s.File)
			}
		}
	}
	slices.Sort(used)
	used = slices.Compact(used)
	files, chunks := r.files(a)
	if !slices.Equal(files, used) {
		r.t.Errorf("files %v, versions use %v", files, used)
	}
	if !slices.Equal(chunks, used) {
		r.t.Errorf("chunks of %v, versions use %v", chunks, used)
	}
}
