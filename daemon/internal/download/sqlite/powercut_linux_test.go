package sqlite

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/powerloss"
)

var (
	cutSeed = flag.Uint64("powercut.seed", 0, "seed of the power cuts; 0: another one each time")
	cuts    = flag.Int("powercut.cuts", 25, "moments at which the power fails, each in several ways")
)

// traced runs a victim in dir until it has printed so many lines or has ended by itself. It returns
// what the victim printed, what it did to files, and its last errors.
func traced(t *testing.T, dir string, lines int, inject string) (printed []string, did []powerloss.Entry, said string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(program)
	victim.Env = append(os.Environ(), victimDir+"="+dir, victimName+"=v")
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := powerloss.Traced(victim, trace, inject)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for len(printed) < lines && in.Scan() {
		printed = append(printed, in.Text())
	}
	_ = out.Close() // the next line that it prints kills it
	_ = cmd.Wait()
	if did, err = powerloss.ReadTrace(trace, dir); err != nil {
		t.Fatal(err)
	}
	return printed, did, stderr.String()
}

// recovered opens the store in dir, and compares it with what was acknowledged.
func recovered(t *testing.T, dir string, acknowledged []string) {
	t.Helper()
	clock := downloadtest.NewClock()
	downloadtest.Recovered(t, clock, func() download.Store {
		s, err := Open(context.Background(), Options{Dir: dir, Now: clock.Now, Inline: inline})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, acknowledged)
}

// cutPower checks what the disk may hold after power cuts at random moments of the recorded operations.
func cutPower(t *testing.T, root string, did []powerloss.Entry, cuts int) {
	seed := cmp.Or(*cutSeed, rand.Uint64())
	random := rand.New(rand.NewPCG(seed, 0))
	moments := map[int]bool{len(did) - 1: true}
	for len(moments) < min(cuts, len(did)) {
		moments[random.IntN(len(did))] = true
	}
	disk := powerloss.NewDisk(root)
	var acknowledged []string
	states, different := 0, 0
	for i, entry := range did {
		disk.Apply(entry)
		if line, ok := entry.Note.(string); ok {
			acknowledged = append(acknowledged, line)
		}
		if !moments[i] {
			continue
		}
		intact := disk.Intact()
		for _, state := range []powerloss.State{intact.Oldest(), intact.Random(random), intact.Random(random)} {
			states++
			if len(state.Lost()) > 0 {
				different++
			}
			dir := filepath.Join(t.TempDir(), "cut")
			if err := state.Make(dir); err != nil {
				t.Fatal(err)
			}
			recovered(t, dir, acknowledged)
			if t.Failed() {
				t.Fatalf("the power failed after operation %d of %d (seed %d): %s", i, len(did), seed, strings.Join(state.Lost(), "; "))
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d operations and lines, %d states of the disk, in %d of them something was lost", len(did), states, different)
	if different < states/4 {
		t.Errorf("in %d states of %d nothing was lost: nothing was tried", states-different, states)
	}
}

// Acknowledged data survives a power cut at any moment, whatever the disk made of unsynced data:
// pages written or not, torn, or out of order; names of files likewise.
func TestSystemPowerCut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	printed, did, said := traced(t, root, 1500, "")
	if len(printed) < 1500 {
		t.Fatalf("the victim ended by itself after %d lines: %s", len(printed), said)
	}
	cutPower(t, root, did, *cuts)
}

// A disk that fails or is full is reported at once, and data that was acknowledged before is there
// after a restart. If a sync failed, the disk may permanently lack what it was to write.
func TestSystemFailingDisk(t *testing.T) {
	t.Parallel()
	// The counts are per thread of the victim. The failure may hit the database, after which
	// nothing more is written, or the file of one large body, which is an error of that call only.
	// A single failure could also hit a write of a checkpoint, which SQLite silently repeats later.
	failed := []string{"the disk failed, nothing more is stored until the program starts again", "input/output error"}
	full := []string{"database or disk is full", "no space left on device"}
	for name, c := range map[string]struct {
		inject string
		says   []string
	}{
		"syncs fail":       {"fsync,fdatasync:error=EIO:when=30+", failed},
		"writes fail":      {"pwrite64:error=EIO:when=300+", failed},
		"the disk is full": {"pwrite64:error=ENOSPC:when=300+", full},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			printed, did, said := traced(t, root, 1_000_000, c.inject)
			if !slices.ContainsFunc(c.says, func(text string) bool { return strings.Contains(said, text) }) {
				t.Fatalf("after %d lines the victim says %q, want one of %q", len(printed), said, c.says)
			}
			if len(printed) < 10 {
				t.Fatalf("%d lines: nothing was tried", len(printed))
			}
			again := filepath.Join(t.TempDir(), "again")
			if err := os.CopyFS(again, os.DirFS(root)); err != nil {
				t.Fatal(err)
			}
			recovered(t, again, printed)
			cutPower(t, root, did, *cuts/4)
		})
	}
}
