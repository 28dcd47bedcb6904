package table

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// What MemoryFor knows of the parts is true after every kind of change, whoever made it.
func TestFillsAreKnown(t *testing.T) {
	t.Parallel()
	b := NewTimed(1)
	defer b.Close()
	r := rand.New(rand.NewPCG(1, 2))
	var all []bloom.Hash
	for range 20_000 {
		all = append(all, bloom.Hash{Hi: r.Uint64(), Lo: r.Uint64()})
	}
	check := func(after string) {
		t.Helper()
		for i := range b.parts {
			p, f := &b.parts[i], &b.lock[i/share].fills[i%share]
			if int(f.used.Load()) != p.used || f.homes.Load() != int64(p.homes) || int(f.bytes.Load()) != len(p.mem) {
				t.Fatalf("after %s: part %d has %d keys, %d homes, %d bytes; known are %d, %d, %d",
					after, i, p.used, p.homes, len(p.mem), f.used.Load(), f.homes.Load(), f.bytes.Load())
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l := b.Load(1)
	for _, key := range all[:5000] {
		must(l.Put(Entry{key, 1000}))
	}
	must(l.Flush())
	check("a load")
	for n := 5000; n < len(all); n += 1000 {
		fresh := make([]bool, 1000)
		_, err := b.Add(all[n:n+1000], 2, 2000, fresh)
		must(err)
		check("an add")
	}
	must(b.Put(3, Entry{all[0], 3000}, Entry{all[1], 0}))
	check("a put")
	if b.Remove(all[:3000], 3) == 0 {
		t.Error("nothing was there to remove")
	}
	check("a removal")
	for range 2 * parts {
		must(b.Sweep(1500))
	}
	check("a sweep")
	for range 2 * parts {
		must(b.Sweep(5000))
	}
	check("the end of all keys")
}

// No two locks share a cache line.
func TestLocksArePadded(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(paddedLock{}); size%64 != 0 {
		t.Errorf("a lock and what it guards take %d bytes, want whole cache lines", size)
	}
}
