package sqlite

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// The folder may be relative, and have any name.
func TestFolderNames(t *testing.T) {
	for _, dir := range []string{"data", filepath.Join(".run", "down load"), "a?b#c%41"} {
		t.Chdir(t.TempDir())
		for range 2 {
			s, err := Open(t.Context(), Options{Dir: dir})
			if err != nil {
				t.Fatalf("%q: %v", dir, err)
			}
			if _, err := s.AddJob(t.Context(), download.Job{Name: "a", On: true}); err != nil && !errors.Is(err, download.ErrExists) {
				t.Errorf("%q: %v", dir, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if found, err := filepath.Glob("*/*" + databaseName); err != nil || len(found) == 0 && dir == "data" {
			t.Errorf("%q: %q, %v", dir, found, err)
		}
	}
}

// Leases of a killed process are free at once for the next process, if that one is alone; what hosts have asked for stays.
func TestEndLeases(t *testing.T) {
	dir := t.TempDir()
	open := func(end bool) *Store {
		s, err := Open(t.Context(), Options{Dir: dir, EndLeases: end})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(false)
	j, err := s.AddJob(t.Context(), download.Job{Name: "a", On: true, Setting: download.Setting{Lane: download.Normal, MaxAttempts: 2, Dispatch: 1}})
	if err != nil {
		t.Fatal(err)
	}
	lease := func() int {
		if _, err := s.HandOut(t.Context(), j.ID, 1, 0, time.Hour); err != nil {
			t.Fatal(err)
		}
		leases, err := s.Lease(t.Context(), download.Want{Owner: "w", Max: 1, For: time.Hour, Shards: []int{1}, Lanes: download.Lanes()})
		if err != nil {
			t.Fatal(err)
		}
		return len(leases)
	}
	const pause = download.PausePrefix + "1/h.example"
	if _, err := s.Hold(t.Context(), "w", []string{pause}, time.Hour); err != nil {
		t.Fatal(err)
	}
	hold := func(owner string) int {
		held, err := s.Hold(t.Context(), owner, []string{"shard/1"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return len(held)
	}
	if _, err := s.AddTasks(t.Context(), j.ID, []download.NewTask{{URI: "http://a/", Shard: 1}}); err != nil {
		t.Fatal(err)
	}
	if lease() != 1 || hold("w") != 1 {
		t.Fatal("nothing was leased")
	}
	for _, end := range []bool{false, true} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(end)
		swept, err := s.Sweep(t.Context(), 0)
		want := 0
		if end {
			want = 1
		}
		if n := lease(); err != nil || swept.Abandoned != want || n != want || hold("other") != want {
			t.Errorf("leases ended: %t: swept %+v, %v, leased %d", end, swept, err, n)
		}
		if kept, err := s.Holders(t.Context(), download.PausePrefix); err != nil || kept[pause] != "w" || len(kept) != 1 {
			t.Errorf("leases ended: %t: pauses %v, %v", end, kept, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
