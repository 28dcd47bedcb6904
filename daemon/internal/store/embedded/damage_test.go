package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, options(dir))
	_, err := Open(options(dir))
	var inUse *disk.InUseError
	if !errors.As(err, &inUse) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Fatalf("got %v, want InUseError that names this process", err)
	}
	if err := Verify(dir, false, func(Finding) {}); !errors.As(err, &inUse) {
		t.Fatalf("Verify: %v, want InUseError", err)
	}
}

// A daemon waits for a command that has the directory, or until it is told to stop. Beside another daemon,
// even one that waits, it is refused.
func TestDaemonWaitsForACommand(t *testing.T) {
	dir := t.TempDir()
	refused := func() {
		t.Helper()
		_, err := OpenDaemon(t.Context(), options(dir), func(err error) { t.Errorf("it waits: %v", err) })
		if !errors.As(err, new(*disk.InUseError)) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
			t.Errorf("beside another daemon: %v, want InUseError that names this process", err)
		}
	}
	command, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	if _, err := OpenDaemon(ctx, options(dir), func(error) { stop() }); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while it waits: %v", err)
	}
	var told []error
	daemon, err := OpenDaemon(t.Context(), options(dir), func(held error) {
		if told = append(told, held); held != nil {
			refused()
			if err := command.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 2 || !errors.As(told[0], new(*disk.InUseError)) || told[1] != nil {
		t.Errorf("told %v, want who has the directory, and nil", told)
	}
	refused()
	if _, err := Open(options(dir)); !errors.As(err, new(*disk.InUseError)) {
		t.Errorf("a command beside a daemon: %v, want InUseError", err)
	}
	if err := daemon.Close(); err != nil {
		t.Fatal(err)
	}
	if daemon, err = OpenDaemon(t.Context(), options(dir), func(err error) { t.Errorf("it waits for nobody: %v", err) }); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Close(); err != nil {
		t.Error(err)
	}
}

// A flipped bit anywhere in a bit-map file and a cut to any length are detected, and the
// message names the file and the way out.
func TestCorruptBitmap(t *testing.T) {
	dir := t.TempDir()
	store, set := mustOpen(t, options(dir))
	storetest.Add(t, set, storetest.Keys(set, 0, 20_000))
	if err := set.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "filters", "1-uri", "bitmap")
	const coverEnd, bitsOffset = 140, 4096 // of the file, see docs/format.md
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	try := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, _, err := kindReads(uri, path, newHands())
		if err == nil {
			_ = m.Free()
			t.Fatalf("%s: no error", what)
		}
		if !errors.Is(err, bloom.ErrCorrupt) && !strings.Contains(err.Error(), "format") {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for at := range coverEnd {
		data := append([]byte(nil), whole...)
		data[at] ^= 1 << rng.IntN(8)
		try(fmt.Sprintf("flipped at %d", at), data)
	}
	for range 100 {
		at := bitsOffset + rng.IntN(len(whole)-bitsOffset)
		data := append([]byte(nil), whole...)
		data[at] ^= 1 << rng.IntN(8)
		try(fmt.Sprintf("flipped at %d", at), data)
	}
	for _, n := range []int{0, 1, 100, coverEnd, bitsOffset, len(whole) / 2, len(whole) - 1} {
		try(fmt.Sprintf("cut to %d", n), whole[:n])
	}
	try("longer", append(append([]byte(nil), whole...), 0))

	mustQuarantine(t, dir, path)
}

func TestVerifyAndRepair(t *testing.T) {
	dir := t.TempDir()
	store, set := mustOpen(t, options(dir))
	for i := range 10 {
		storetest.Add(t, set, storetest.Keys(set, i*100, 100))
	}
	damagedDir := crash(t, dir)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(dir string, repair bool) Finding {
		t.Helper()
		var all []Finding
		if err := Verify(dir, repair, func(f Finding) { all = append(all, f) }); err != nil {
			t.Fatal(err)
		}
		if len(all) != 1 {
			t.Fatalf("%d findings", len(all))
		}
		return all[0]
	}
	if f := check(dir, false); len(f.Damage) != 0 || f.Keys != 1000 || f.Blocks != 1 || f.Spec != uri {
		t.Errorf("sound: %+v", f)
	}

	segment := filepath.Join(damagedDir, "filters", "1-uri", "journal-0000000000000001")
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	data[64+3*(101*16)+500] ^= 4 // in the fourth record
	if err := os.WriteFile(segment, data, 0o600); err != nil {
		t.Fatal(err)
	}
	mustQuarantine(t, crash(t, damagedDir), "journal-0000000000000001")
	if f := check(damagedDir, false); len(f.Damage) != 1 || f.Keys != 900 || f.Repaired {
		t.Errorf("damaged: %+v", f)
	}
	if f := check(damagedDir, true); !f.Repaired {
		t.Errorf("repair: %+v", f)
	}
	if f := check(damagedDir, false); len(f.Damage) != 0 {
		t.Errorf("after the repair: %+v", f)
	}
	again := mustHold(t, damagedDir, 300)
	fresh := make([]bool, 1000)
	if err := again.Has(context.Background(), storetest.Keys(again, 0, 1000), fresh); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, f := range fresh {
		if f {
			lost++
		}
	}
	if lost != 100 {
		t.Errorf("%d items lost by a damaged record of 100", lost)
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	store, set := mustOpen(t, options(dir))
	storetest.Add(t, set, storetest.Keys(set, 0, 100))
	copied := crash(t, dir)
	_ = store.Close()
	folder := filepath.Join(copied, "filters", "1-uri")
	for _, name := range []string{
		filepath.Join(copied, "filters", "new-7-x", "bitmap"), filepath.Join(copied, "filters", "dropped-3-y", "bitmap"),
		filepath.Join(folder, "bitmap.tmp"), filepath.Join(folder, "spare-99"),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustHold(t, copied, 100)
	for _, pattern := range []string{"filters/new-*", "filters/dropped-*", "filters/*/*.tmp", "filters/*/spare-99"} {
		if left, _ := filepath.Glob(filepath.Join(copied, pattern)); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	}
}
