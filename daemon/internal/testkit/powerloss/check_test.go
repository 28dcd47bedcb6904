package powerloss

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// known is what must hold at a cut.
type known map[string]*promise

// promise is what callers were told about a filter.
type promise struct {
	filter
	there  bool // it must exist
	gone   bool // it must not exist
	either bool // it may be cleared
	must   map[bloom.Hash]bool
	later  []bloom.Hash // told, and durable with the next flush
	merged []bloom.Hash
	tried  []bloom.Hash
	free   []bloom.Hash // must be new
	freer  []bloom.Hash // told, and durable with the next flush
}

// take records a note.
func (k known) take(note any, durability string) {
	of := func(name string) *promise {
		if k[name] == nil {
			k[name] = &promise{must: map[bloom.Hash]bool{}}
		}
		return k[name]
	}
	keep := func(p *promise, keys []bloom.Hash) {
		for _, key := range keys {
			p.must[key] = true
		}
	}
	switch n := note.(type) {
	case began:
		delete(k, n.name)
		of(n.name)
	case created:
		if p := of(n.spec.Name); p.either && p.seed != n.seed {
			delete(k, n.spec.Name) // it was cleared after all
		}
		p := of(n.spec.Name)
		p.filter, p.there, p.gone, p.either = n.filter, true, false, false
	case clearing:
		of(n.name).either = true
	case cleared:
		delete(k, n.spec.Name)
		p := of(n.spec.Name)
		p.filter, p.there = n.filter, true
	case ending:
		of(n.name).there = false
	case dropped:
		of(n.name).gone = true
	case told:
		if durability == "always" {
			keep(of(n.name), n.keys)
		} else {
			of(n.name).later = append(of(n.name).later, n.keys...)
		}
	case freed:
		if durability == "always" {
			of(n.name).free = append(of(n.name).free, n.keys...)
		} else {
			of(n.name).freer = append(of(n.name).freer, n.keys...)
		}
	case tried:
		of(n.name).tried = append(of(n.name).tried, n.keys...)
	case merged:
		of(n.name).merged = append(of(n.name).merged, n.keys...)
	case committed:
		p := of(n.name)
		keep(p, p.merged)
		keep(p, p.later)
		p.merged, p.later = nil, nil
	case flushed:
		for _, p := range k {
			keep(p, p.later)
			p.free = append(p.free, p.freer...)
			p.later, p.freer = nil, nil
		}
	}
}

// recovery starts the daemon's store in a folder that a cut has left.
type recovery struct {
	s      script
	clock  timing.Clock
	known  known
	passed *sync.Map // by digest: the disks that were found good for the same known
}

func (r recovery) open(root string, fs disk.FS) (*embedded.Store, map[engine.Spec]engine.Set, error) {
	store, err := embedded.Open(embedded.Options{
		Dir: filepath.Join(root, "var", "urifilter"), Durability: r.s.durability, SegmentBytes: segmentBytes,
		Log: slog.New(slog.DiscardHandler), FS: fs, Clock: r.clock,
	})
	if err != nil {
		return nil, nil, err
	}
	sets, err := store.Load(context.Background())
	if err != nil {
		_ = store.Close()
		return nil, nil, err
	}
	for spec, set := range sets {
		sets[spec] = byKeys(set)
	}
	return store, sets, nil
}

// verify reports what is wrong with a folder that a cut has left and that disk describes. After a
// first start, more is written, and a second start follows. The first start is cut too, after it
// has found its filters: the folder is re-created at again, with the least that must have reached
// the disk, and started there.
func (r recovery) verify(d *Disk, again string) error {
	root := d.root
	log := NewLog(root)
	store, sets, err := r.open(root, disk.FS{Record: log.Record})
	if err != nil {
		return fmt.Errorf("first start: %w", err)
	}
	seen, err := r.compare(sets, nil)
	if err != nil {
		_ = store.Close()
		return fmt.Errorf("first start: %w", err)
	}
	cut := len(log.Entries())
	for _, set := range sets {
		keys := storetest.Keys(set, 1_000_000, 20)
		if _, err := set.Add(context.Background(), keys, make([]bool, len(keys))); err != nil {
			return fmt.Errorf("after the first start: %w", err)
		}
		seen[set] = append(seen[set], keys...)
	}
	if err := store.Close(); err != nil {
		return fmt.Errorf("after the first start: %w", err)
	}
	byName := map[string][]bloom.Hash{}
	before := map[string][]bloom.Hash{}
	for spec, set := range sets {
		byName[spec.Name] = seen[set]
		before[spec.Name] = seen[set][:len(seen[set])-20]
	}
	if err := r.restart(root, byName); err != nil {
		return fmt.Errorf("second start: %w", err)
	}
	for _, e := range log.Entries()[:cut] {
		d.Apply(e)
	}
	if err := d.Intact().Oldest().Make(again); err != nil {
		return err
	}
	if err := r.restart(again, before); err != nil {
		return fmt.Errorf("second start, after a cut directly after the first: %w", err)
	}
	return nil
}

func (r recovery) restart(root string, seen map[string][]bloom.Hash) error {
	store, sets, err := r.open(root, disk.FS{})
	if err != nil {
		return err
	}
	defer store.Close()
	_, err = r.compare(sets, seen)
	return err
}

// compare compares what a start has found with what was promised, and with what an earlier
// start reported as seen. It returns what is seen now.
func (r recovery) compare(sets map[engine.Spec]engine.Set, earlier map[string][]bloom.Hash) (map[engine.Set][]bloom.Hash, error) {
	seen := map[engine.Set][]bloom.Hash{}
	byName := map[string]engine.Set{}
	for spec, set := range sets {
		byName[spec.Name] = set
	}
	for name, p := range r.known {
		set := byName[name]
		switch {
		case set == nil && p.there:
			return nil, fmt.Errorf("filter %s is gone", name)
		case set != nil && p.gone:
			return nil, fmt.Errorf("filter %s is back after it was dropped", name)
		case set == nil || !p.there && len(p.must) > 0 && set.Seed() != p.seed:
			continue
		}
		must := map[bloom.Hash]bool{}
		for _, key := range earlier[name] {
			must[key] = true
		}
		if p.there && !(p.either && set.Seed() != p.seed) {
			maps.Copy(must, p.must)
		}
		all := slices.Collect(maps.Keys(must))
		for _, key := range p.tried {
			if !must[key] {
				all = append(all, key)
			}
		}
		fresh, err := askAbout(set, all)
		if err != nil {
			return nil, err
		}
		if lost := len(must) - len(seenOf(all[:len(must)], fresh)); lost > 0 {
			return nil, fmt.Errorf("filter %s: %d of %d items are lost that somebody was told are seen", name, lost, len(must))
		}
		seen[set] = seenOf(all, fresh)
		if fresh, err = askAbout(set, p.free); err != nil {
			return nil, err
		}
		if n := len(seenOf(p.free, fresh)); n > 0 {
			return nil, fmt.Errorf("filter %s: %d of %d items are seen or reserved that were released", name, n, len(p.free))
		}
		never := storetest.Keys(set, 2_000_000, 50)
		if fresh, err = askAbout(set, never); err != nil {
			return nil, err
		}
		if n := len(seenOf(never, fresh)); n > 2 {
			return nil, fmt.Errorf("filter %s: %d items of 50 are seen that nobody has added", name, n)
		}
	}
	return seen, nil
}

func askAbout(set engine.Set, keys []bloom.Hash) (fresh []bool, err error) {
	fresh = make([]bool, len(keys))
	return fresh, set.Has(context.Background(), keys, fresh)
}

// diskOf returns a disk with the whole content of a folder.
func diskOf(root string) (*Disk, error) {
	d := NewDisk(root)
	return d, d.top.read(d, root)
}

func (n *node) read(d *Disk, path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		child := d.newNode(entry.IsDir())
		n.names[entry.Name()] = []*node{child}
		inner := filepath.Join(path, entry.Name())
		if entry.IsDir() {
			if err := child.read(d, inner); err != nil {
				return err
			}
			continue
		}
		data, err := os.ReadFile(inner)
		if err != nil {
			return err
		}
		child.write(data, 0)
		child.sync()
	}
	return nil
}

// digest tells apart folders that differ in a name, a length or a byte.
func (d *Disk) digest() [sha256.Size]byte {
	h := sha256.New()
	d.top.hash(h)
	return [sha256.Size]byte(h.Sum(nil))
}

func (n *node) hash(h hash.Hash) {
	fmt.Fprintln(h, len(n.names), n.sizes)
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		fmt.Fprintf(h, "%q", name)
		last(n.names[name]).hash(h)
	}
	for _, at := range slices.Sorted(maps.Keys(n.pages)) {
		fmt.Fprintln(h, at)
		h.Write(last(n.pages[at].versions))
	}
}
