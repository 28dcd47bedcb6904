package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// moved makes a data directory whose filter uri has 100 items and was moved to another folder. It
// returns that folder; the link to it is not made.
func moved(t *testing.T, dir string) (target string) {
	t.Helper()
	store, set := mustOpen(t, options(dir))
	storetest.Add(t, set, storetest.Keys(set, 0, 100))
	must(t, store.Close())
	target = filepath.Join(t.TempDir(), "larger", "uri")
	must(t, os.Mkdir(filepath.Dir(target), 0o700))
	must(t, os.Rename(filepath.Join(dir, filtersDir, "1-uri"), target))
	return target
}

// findings returns what verify says of a directory: names, and whether they are damaged or strange.
func findings(t *testing.T, dir string) (damaged, strange []string) {
	t.Helper()
	must(t, Verify(dir, false, func(f Finding) {
		switch {
		case f.Strange:
			strange = append(strange, filepath.Base(f.Dir))
		case len(f.Damage) > 0:
			damaged = append(damaged, filepath.Base(f.Dir))
		}
	}))
	return damaged, strange
}

// A filter's folder may be a link to one on another disk: everything works there, and dropping the
// filter removes its files there, but nobody else's.
func TestLinkedFolder(t *testing.T) {
	for _, relative := range []bool{false, true} {
		ctx, dir := context.Background(), t.TempDir()
		target := moved(t, dir)
		link, to := filepath.Join(dir, filtersDir, "1-uri"), target
		if relative {
			rel, err := filepath.Rel(filepath.Dir(link), target)
			must(t, err)
			to = rel
		}
		must(t, os.Symlink(to, link))
		foreign := filepath.Join(target, "notes.txt")
		must(t, os.WriteFile(foreign, []byte("x"), 0o600))
		if damaged, strange := findings(t, dir); len(damaged)+len(strange) != 0 {
			t.Errorf("verify: damaged %v, strange %v", damaged, strange)
		}
		set := mustHold(t, dir, 100)
		storetest.Add(t, set, storetest.Keys(set, 100, 100))
		must(t, set.checkpoint())
		storetest.Add(t, set, storetest.Keys(set, 200, 100))
		must(t, set.store.Close())
		set = mustHold(t, dir, 300)
		next := storetest.Identity()
		next.Generation = 2
		must(t, set.store.Clear(ctx, uri, next, func(engine.Set) {}))
		must(t, set.store.Close())
		store, again := mustOpen(t, options(dir))
		if fresh := make([]bool, 1); again.Has(ctx, storetest.Keys(again, 0, 1), fresh) != nil || !fresh[0] {
			t.Error("it was not cleared")
		}
		must(t, store.Drop(ctx, uri))
		if left, err := filepath.Glob(filepath.Join(target, "*")); err != nil || len(left) != 1 || left[0] != foreign {
			t.Errorf("behind the link are left %v, %v", left, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(link)); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
		if _, err := store.Create(ctx, uri, storetest.Identity()); err != nil {
			t.Errorf("make it again: %v", err)
		}
		must(t, store.Close())
	}
}

// Two data directories that link to one folder: the second does not touch it.
func TestLinkedFolderIsLocked(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	target := moved(t, dir)
	must(t, os.Symlink(target, filepath.Join(dir, filtersDir, "1-uri")))
	must(t, os.Mkdir(filepath.Join(other, filtersDir), 0o700))
	must(t, os.Symlink(target, filepath.Join(other, filtersDir, "1-uri")))
	set := mustHold(t, dir, 100)
	mustQuarantine(t, other, "held by")
	if damaged, _ := findings(t, other); len(damaged) != 1 {
		t.Errorf("verify: damaged %v", damaged)
	}
	must(t, set.store.Close())
	mustHold(t, other, 100)
}

// A link to a disk that is not mounted is no reason to make the filter again, nor to keep the
// others from being served; neither is anything else that has a filter's name. What has none is
// reported.
func TestEntriesThatAreNoFolders(t *testing.T) {
	ctx := context.Background()
	for name, make := range map[string]func(path, target string) error{
		"broken link":      func(path, target string) error { return os.Symlink(target+"-gone", path) },
		"link to a file":   func(path, target string) error { return os.Symlink(filepath.Join(target, specName), path) },
		"link in a circle": func(path, _ string) error { return os.Symlink(path, path) },
		"link to an empty folder": func(path, target string) error {
			return errors.Join(os.Mkdir(target+"-empty", 0o700), os.Symlink(target+"-empty", path))
		},
		"file": func(path, _ string) error { return os.WriteFile(path, []byte("x"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			target := moved(t, dir)
			must(t, make(filepath.Join(dir, filtersDir, "1-uri"), target))
			must(t, os.WriteFile(filepath.Join(dir, filtersDir, "readme.txt"), []byte("x"), 0o600))
			damaged, strange := findings(t, dir)
			if strings.Join(damaged, " ") != "1-uri" || strings.Join(strange, " ") != "readme.txt" {
				t.Errorf("verify: damaged %v, strange %v", damaged, strange)
			}
			mustQuarantine(t, dir, "1-uri")
			store, err := Open(options(dir))
			must(t, err)
			defer store.Close()
			_, err = store.Load(ctx)
			must(t, err)
			if _, err := store.Create(ctx, uri, storetest.Identity()); err == nil {
				t.Error("an empty filter is made in its place")
			}
			if _, err := store.Create(ctx, engine.Spec{ID: 2, Name: "ip", Kind: "exact", Params: configs.Exact{}}, storetest.Identity()); err != nil {
				t.Errorf("another filter: %v", err)
			}
			if _, err := os.Stat(filepath.Join(target, specName)); err != nil {
				t.Errorf("the moved folder: %v", err)
			}
		})
	}
}

// A crash in the middle of dropping leaves a renamed link; the next start removes what is behind it.
func TestDroppedLinkIsRemoved(t *testing.T) {
	dir := t.TempDir()
	target := moved(t, dir)
	must(t, os.Symlink(target, filepath.Join(dir, filtersDir, droppedPrefix+"1-uri-1")))
	must(t, os.Symlink(target+"-gone", filepath.Join(dir, filtersDir, droppedPrefix+"2-ip-1")))
	mustOpen(t, options(dir))
	if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("behind the link: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, filtersDir, droppedPrefix+"*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
