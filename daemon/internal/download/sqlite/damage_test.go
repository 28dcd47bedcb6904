package sqlite

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/verify"
)

// fill stores a small and a large body for each of n tasks in a folder, and returns the tasks by URI.
func fill(t *testing.T, dir string, bodies map[string]string) map[string]string {
	t.Helper()
	s := open(t, Options{Dir: dir, Inline: 1000})
	j, err := s.AddJob(t.Context(), download.Job{Name: "a", On: true, Setting: download.Setting{Lane: download.Normal, MaxAttempts: 1, Dispatch: 9}})
	if err != nil {
		t.Fatal(err)
	}
	var tasks []download.NewTask
	for uri := range bodies {
		tasks = append(tasks, download.NewTask{URI: uri, Shard: 1})
	}
	if _, err := s.AddTasks(t.Context(), j.ID, tasks); err != nil {
		t.Fatal(err)
	}
	if _, err := s.HandOut(t.Context(), j.ID, len(bodies), 0, time.Hour); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Lease(t.Context(), download.Want{Owner: "w", Max: len(bodies), For: time.Hour, Shards: []int{1}, Lanes: download.Lanes()})
	if err != nil || len(leases) != len(bodies) {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	ids := map[string]string{}
	for _, lease := range leases {
		ids[lease.Task.URI] = lease.Task.ID
		if err := s.Finish(t.Context(), lease, download.Result{Status: 200, Body: strings.NewReader(bodies[lease.Task.URI])}, download.Attempt{Status: 200}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// inspect returns what verify finds in a folder, by URI.
func inspect(t *testing.T, dir string) (faults []string, found map[string]string, c verify.Counts) {
	t.Helper()
	i, err := Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if faults, err = i.Database(t.Context()); err != nil {
		t.Fatal(err)
	}
	found = map[string]string{}
	c, err = verify.Bodies(t.Context(), i, func(d verify.Damage) { found[d.URI] = d.Fault }, func(verify.Counts) {})
	if err != nil {
		t.Fatal(err)
	}
	return faults, found, c
}

// TestDamagedBodies: a byte that was flipped, a body that was cut or lengthened and a missing file are
// never answered as the body, and are found, wherever the body is.
func TestDamagedBodies(t *testing.T) {
	t.Parallel()
	small, large := strings.Repeat("small ", 100), strings.Repeat("large ", 1000)
	bodies := map[string]string{"http://a/small": small, "http://a/large": large, "http://a/sound": "sound", "http://a/empty": ""}
	for name, harm := range map[string]func(t *testing.T, dir, id string){
		"a flipped byte in the database": func(t *testing.T, dir, id string) {
			path := filepath.Join(dir, databaseName)
			all := read(t, path)
			at := bytes.Index(all, []byte("small small"))
			all[at+100] ^= 1
			write(t, path, string(all))
		},
		"a flipped byte in a file": func(t *testing.T, dir, id string) {
			path := bodyFile(t, dir)
			all := read(t, path)
			all[3000] ^= 1
			write(t, path, string(all))
		},
		"a file that was cut": func(t *testing.T, dir, id string) {
			if err := os.Truncate(bodyFile(t, dir), 3000); err != nil {
				t.Fatal(err)
			}
		},
		"a longer file": func(t *testing.T, dir, id string) { write(t, bodyFile(t, dir), large+"x") },
		"an empty file": func(t *testing.T, dir, id string) { write(t, bodyFile(t, dir), "") },
		"no file": func(t *testing.T, dir, id string) {
			if err := os.Remove(bodyFile(t, dir)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ids := fill(t, dir, bodies)
			if faults, found, c := inspect(t, dir); len(faults)+len(found) > 0 || c.Bodies != 4 || c.Bytes != int64(len(small)+len(large)+5) {
				t.Fatalf("before: %v, %v, %+v", faults, found, c)
			}
			harm(t, dir, ids["http://a/large"])
			harmed := "http://a/large"
			if strings.Contains(name, "database") {
				harmed = "http://a/small"
			}
			_, found, c := inspect(t, dir)
			if len(found) != 1 || found[harmed] == "" || c.Damaged != 1 {
				t.Errorf("found %v, %+v", found, c)
			}
			s := open(t, Options{Dir: dir})
			defer s.Close()
			for uri, want := range bodies {
				body, err := s.Body(t.Context(), ids[uri])
				var got []byte
				if err == nil {
					got, err = io.ReadAll(body)
					err = errors.Join(err, body.Close())
				}
				var damaged *download.DamagedError
				if uri == harmed && !errors.As(err, &damaged) || uri != harmed && (err != nil || string(got) != want) {
					t.Errorf("%s: %d bytes, %v", uri, len(got), err)
				}
			}
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func bodyFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, bodiesName, "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	return files[0]
}

// TestZeroedPages: each page of the database in turn is zeroed. A start refuses it, verify finds it, and a
// store that is open says that it is not ready as soon as a call has met it.
func TestZeroedPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bodies := map[string]string{}
	for i := range 20 {
		bodies["http://a/"+hex.EncodeToString([]byte{byte(i)})] = strings.Repeat("body", 200)
	}
	fill(t, dir, bodies)
	whole := read(t, filepath.Join(dir, databaseName))
	const size = 8192
	if len(whole) < 10*size {
		t.Fatalf("%d pages", len(whole)/size)
	}
	for page := range len(whole) / size {
		torn := bytes.Clone(whole)
		clear(torn[page*size : (page+1)*size])
		if bytes.Equal(torn, whole) {
			continue
		}
		harmed := t.TempDir()
		write(t, filepath.Join(harmed, databaseName), string(torn))
		s, err := Open(t.Context(), Options{Dir: harmed})
		if err == nil {
			t.Errorf("page %d: opened", page+1)
			s.Close()
			continue
		}
		if page == 0 { // its header is gone
			continue
		}
		if !strings.Contains(err.Error(), "uridownloader verify") {
			t.Errorf("page %d: %v", page+1, err)
		}
		i, err := Inspect(harmed)
		if err != nil {
			t.Errorf("page %d: %v", page+1, err)
			continue
		}
		if faults, err := i.Database(t.Context()); err != nil || len(faults) == 0 {
			t.Errorf("page %d: %v, %v", page+1, faults, err)
		}
		i.Close()
	}
}

// TestReadyAsks: a store whose database is damaged while it is open is not ready.
func TestReadyAsks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bodies := map[string]string{"http://a/": strings.Repeat("body", 200)}
	fill(t, dir, bodies)
	s := open(t, Options{Dir: dir})
	defer s.Close()
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, databaseName)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, len(read(t, path))-8192), 8192)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	s.read.SetMaxIdleConns(0) // so that no page is taken from a cache
	var damaged *DamagedError
	if err := s.Ready(t.Context()); !errors.As(err, &damaged) {
		t.Errorf("ready: %v", err)
	}
	if err := s.Ready(t.Context()); !errors.As(err, &damaged) {
		t.Errorf("ready, asked again: %v", err)
	}
}
