package embedded

import (
	"context"
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

// mustQuarantine checks that the one damaged filter of a directory is left out, with an error
// that names what is damaged and says what to do.
func mustQuarantine(t *testing.T, dir, damaged string) {
	t.Helper()
	store, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Load(context.Background()); err != nil {
		t.Fatalf("the store does not open: %v", err)
	}
	bad := store.Quarantined()
	if len(bad) != 1 {
		t.Fatalf("in quarantine: %v, want one", bad)
	}
	if text := bad[0].Cause.Error(); !strings.Contains(text, damaged) || !strings.Contains(text, "hint:") {
		t.Fatalf("it does not name %s, or what to do: %s", damaged, text)
	}
}

// If any file of one filter is damaged in any way, the other filter is served, and no file
// of the damaged one is touched.
func TestOneBadFilter(t *testing.T) {
	ctx := context.Background()
	sound := t.TempDir()
	store, set := mustOpen(t, options(sound))
	storetest.Add(t, set, storetest.Keys(set, 0, 1000))
	other, err := store.Create(ctx, engine.Spec{ID: 2, Name: "times", Kind: "timing", Params: configs.Timing{Expire: 3600e9}}, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	storetest.Add(t, other, storetest.Keys(other, 0, 100))
	sound = crash(t, sound)
	folder := func(dir string) string { return filepath.Join(dir, filtersDir, "1-uri") }
	change := func(t *testing.T, path string, by func([]byte) []byte) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, by(data), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	for name, damage := range map[string]func(t *testing.T, dir string){
		"bit-map":    func(t *testing.T, dir string) { change(t, filepath.Join(folder(dir), "bitmap"), flip(5000)) },
		"no bit-map": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(folder(dir), "bitmap"))) },
		"journal's header": func(t *testing.T, dir string) {
			change(t, filepath.Join(folder(dir), "journal-0000000000000001"), flip(9))
		},
		"description": func(t *testing.T, dir string) {
			change(t, filepath.Join(folder(dir), specName), func([]byte) []byte { return []byte("{") })
		},
		"no description": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(folder(dir), specName))) },
		"unknown kind": func(t *testing.T, dir string) {
			change(t, filepath.Join(folder(dir), specName), func(b []byte) []byte { return []byte(strings.Replace(string(b), `"bloom"`, `"later"`, 1)) })
		},
		"same name": func(t *testing.T, dir string) {
			must(t, os.CopyFS(filepath.Join(dir, filtersDir, "7-uri"), os.DirFS(folder(dir))))
		},
		"same id": func(t *testing.T, dir string) {
			must(t, os.CopyFS(filepath.Join(dir, filtersDir, "1-copy"), os.DirFS(folder(dir))))
		},
		"a folder of nothing": func(t *testing.T, dir string) {
			must(t, os.Rename(folder(dir), filepath.Join(dir, filtersDir, "uri")))
			must(t, os.RemoveAll(filepath.Join(dir, filtersDir, "uri", specName)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := crash(t, sound)
			damage(t, dir)
			before := files(t, dir)
			store, err := Open(options(dir))
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			sets, err := store.Load(ctx)
			if err != nil {
				t.Fatalf("the store does not open: %v", err)
			}
			if len(sets) != 1 {
				t.Fatalf("%d filters are served, want the other one", len(sets))
			}
			for _, set := range sets {
				if n := storetest.Add(t, set, storetest.Keys(set, 0, 200)); len(n) != 200 {
					t.Errorf("%d answers", len(n))
				}
			}
			bad := store.Quarantined()
			if len(bad) == 0 || !strings.Contains(bad[0].Name, "uri") && bad[0].Name != "copy" {
				t.Fatalf("in quarantine: %+v", bad)
			}
			if name != "a folder of nothing" {
				if _, err := store.Create(ctx, uri, storetest.Identity()); err == nil {
					t.Error("an empty filter is made over the damaged one")
				}
			}
			if after := files(t, dir); !slices.Equal(before, after) {
				t.Errorf("files of the damaged one: before %v, after %v", before, after)
			}
			to, err := store.PutAway(ctx, bad[0])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(to); err != nil {
				t.Error("its files are gone")
			}
			if _, err := os.Stat(bad[0].Where); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there: %v", bad[0].Where, err)
			}
		})
	}
}

// files lists the files of filters named uri, with their checksums. Spare ones do not
// count.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, filtersDir, "*uri*", "*"))
	must(t, err)
	for _, path := range found {
		data, err := os.ReadFile(path)
		must(t, err)
		if !strings.HasPrefix(filepath.Base(path), "spare-") {
			all = append(all, fmt.Sprintf("%s %08x", path, bloom.Checksum(data)))
		}
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
