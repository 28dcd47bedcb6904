package embedded

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// What the vector in docs/format.md has.
var exampleState = state{description: 0x01020304, generation: 2, mark: 0x1112131415161718, reached: 9}

func TestStateVector(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "state.hex"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	if got := exampleState.encode(); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if got, err := decodeState(want); err != nil || got != exampleState {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzState(f *testing.F) {
	f.Add(exampleState.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, err := decodeState(b); err == nil && len(b) == stateSize && bytes.Equal(b[40:60], make([]byte, 20)) && !bytes.Equal(st.encode(), b) {
			t.Errorf("%x is decoded, and encoded as %x", b, st.encode())
		}
	})
}

func TestStateFlippedOrCut(t *testing.T) {
	whole := exampleState.encode()
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 1
		if _, err := decodeState(b); !errors.Is(err, errDamaged) {
			t.Errorf("flipped at %d: %v", at, err)
		}
		if _, err := decodeState(whole[:at]); !errors.Is(err, errDamaged) {
			t.Errorf("cut to %d: %v", at, err)
		}
	}
}

// twins makes a data directory with two filters of each kind of the same parameters, with n items
// each, and stops the store.
func twins(t *testing.T, dir string, n int) {
	t.Helper()
	ctx := context.Background()
	store, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	sets, err := store.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, spec := range []engine.Spec{
		{Kind: "bloom", Params: configs.Bloom{Capacity: 20_000, ErrorRate: 1e-4, OnFull: "warn"}}, {Kind: "exact", Params: configs.Exact{}},
		{Kind: "timing", Params: configs.Timing{Expire: 3600e9}},
	} {
		for j, name := range []string{"one", "two"} {
			spec.ID, spec.Name = 10*(i+1)+j, spec.Kind+"."+name
			set := sets[spec]
			if set == nil {
				if set, err = store.Create(ctx, spec, storetest.Identity()); err != nil {
					t.Fatal(err)
				}
			}
			storetest.Add(t, set, storetest.Keys(set, n, 100))
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// noticed checks that verify and the start agree that a folder is damaged.
func noticed(t *testing.T, dir, folder string) {
	t.Helper()
	damaged := map[string]error{}
	if err := Verify(dir, false, func(f Finding) { damaged[filepath.Base(f.Dir)] = errors.Join(f.Damage...) }); err != nil {
		t.Fatal(err)
	}
	if damaged[folder] == nil {
		t.Errorf("verify: %s is sound", folder)
	}
	store, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(store.Quarantined(), func(q engine.Quarantined) bool { return filepath.Base(q.Where) == folder }) {
		t.Errorf("the start takes %s", folder)
	}
}

// Every file of every filter's folder, whatever its kind, is lost, replaced by that of another
// filter of the same kind and parameters, or by its own older version: verify and the start notice.
// Only the file state may be missing, as in folders of older versions: the others say enough.
func TestEveryFileMatters(t *testing.T) {
	sound, older := t.TempDir(), ""
	twins(t, sound, 0)
	older = crash(t, sound)
	twins(t, sound, 100)
	pattern := filepath.Join(sound, filtersDir, "*.one", "*")
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) < 3*4 {
		t.Fatalf("files %v, %v", all, err)
	}
	for _, path := range all {
		folder, name := filepath.Base(filepath.Dir(path)), filepath.Base(path)
		in := func(dir string) string { return filepath.Join(dir, filtersDir, folder, name) }
		_, filter := splitName(folder)
		other, err := filepath.Glob(filepath.Join(sound, filtersDir, "*-"+strings.TrimSuffix(filter, "one")+"two", name))
		if err != nil || len(other) != 1 {
			t.Fatalf("the other's %s: %v, %v", name, other, err)
		}
		if name != stateName {
			t.Run(fmt.Sprintf("%s/%s lost", folder, name), func(t *testing.T) {
				dir := crash(t, sound)
				must(t, os.Remove(in(dir)))
				noticed(t, dir, folder)
			})
		}
		t.Run(fmt.Sprintf("%s/%s of another filter", folder, name), func(t *testing.T) {
			dir := crash(t, sound)
			must(t, os.Remove(in(dir)))
			must(t, copyFile(in(dir), other[0]))
			noticed(t, dir, folder)
		})
	}
	// After a checkpoint the journal before it is gone, so that an older file lacks something.
	store, err := Open(options(sound))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, k := range store.all() {
		must(t, k.checkpoint())
	}
	must(t, store.Close())
	for _, path := range all {
		folder, name := filepath.Base(filepath.Dir(path)), filepath.Base(path)
		if name == specName || name == stateName || strings.HasPrefix(name, "journal-") {
			continue // the same, true as before, or gone
		}
		t.Run(fmt.Sprintf("%s/%s older", folder, name), func(t *testing.T) {
			dir := crash(t, sound)
			to := filepath.Join(dir, filtersDir, folder, name)
			must(t, os.Remove(to))
			must(t, copyFile(to, filepath.Join(older, filtersDir, folder, name)))
			noticed(t, dir, folder)
		})
	}
}

// A description that was changed is not the one with which the filter was made, also in a folder of
// an older version, which has no state.
func TestChangedDescription(t *testing.T) {
	for _, old := range []bool{false, true} {
		dir := t.TempDir()
		twins(t, dir, 0)
		folder := filepath.Join(dir, filtersDir, "10-bloom.one")
		if old {
			must(t, os.Remove(filepath.Join(folder, stateName)))
		}
		path := filepath.Join(folder, specName)
		text, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, bytes.Replace(text, []byte("20000"), []byte("30000"), 1), 0o600))
		noticed(t, dir, "10-bloom.one")
	}
}

// A journal whose only file was lost is put in order by verify with repair: what is left is served.
func TestRepairOfALostJournal(t *testing.T) {
	for name, damage := range map[string]func(folder string) error{
		"lost": func(folder string) error { return os.Remove(filepath.Join(folder, "journal-0000000000000001")) },
		"cut short": func(folder string) error {
			return os.Truncate(filepath.Join(folder, "journal-0000000000000001"), 100)
		},
		"damaged state": func(folder string) error { return os.WriteFile(filepath.Join(folder, stateName), []byte("x"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			twins(t, dir, 0)
			must(t, damage(filepath.Join(dir, filtersDir, "20-exact.one")))
			check := func(repair bool) (bad, repaired int) {
				t.Helper()
				must(t, Verify(dir, repair, func(f Finding) {
					if len(f.Damage) > 0 {
						bad++
					}
					if f.Repaired {
						repaired++
					}
				}))
				return bad, repaired
			}
			for i, want := range [][2]int{{1, 0}, {1, 1}, {0, 0}} {
				if bad, repaired := check(i == 1); [2]int{bad, repaired} != want {
					t.Errorf("step %d: %d damaged, %d repaired, want %v", i, bad, repaired, want)
				}
			}
			twins(t, dir, 100)
			if bad, _ := check(false); bad != 0 {
				t.Error("damaged after the repair and another run")
			}
		})
	}
}

// A repair does not throw away the journal of another filter: somebody must put it back.
func TestRepairLeavesForeignJournals(t *testing.T) {
	dir := t.TempDir()
	twins(t, dir, 0)
	one := filepath.Join(dir, filtersDir, "20-exact.one", "journal-0000000000000001")
	two := filepath.Join(dir, filtersDir, "21-exact.two", "journal-0000000000000001")
	must(t, os.Rename(one, one+"-"))
	must(t, os.Rename(two, one))
	must(t, os.Rename(one+"-", two))
	must(t, Verify(dir, true, func(f Finding) {
		if foreign := f.Spec.Kind == "exact"; foreign != (len(f.Damage) > 0) || f.Repaired {
			t.Errorf("%s: damage %v, repaired %v", f.Spec.Name, f.Damage, f.Repaired)
		}
	}))
	must(t, os.Rename(one, one+"-"))
	must(t, os.Rename(two, one))
	must(t, os.Rename(one+"-", two))
	if damaged, _ := findings(t, dir); len(damaged) != 0 {
		t.Errorf("put back: damaged %v", damaged)
	}
}

// A folder that an older version wrote, without state and marks, is opened, and has them when the
// store has stopped.
func TestFolderOfAnOlderVersion(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "before-state"))))
	spec := engine.Spec{ID: 1, Name: "urls", Kind: "exact", Params: configs.Exact{}}
	for i, want := range []int{1, 0} { // e is new once
		store, err := Open(options(dir))
		must(t, err)
		sets, err := store.Load(ctx)
		must(t, err)
		set := sets[spec]
		if set == nil {
			t.Fatalf("not served: %v %v", sets, store.Quarantined())
		}
		var keys []bloom.Hash
		for _, item := range []string{"a", "b", "c", "d", "e"} {
			keys = append(keys, bloom.Sum(set.Seed(), []byte(item)))
		}
		if n, err := set.Add(ctx, keys, make([]bool, 5)); err != nil || n != want {
			t.Errorf("start %d: %d new, %v, want %d", i+1, n, err, want)
		}
		must(t, store.Close())
	}
	must(t, os.Remove(filepath.Join(dir, filtersDir, "1-urls", "journal-0000000000000002")))
	noticed(t, dir, "1-urls")
}
