package powerloss

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

var (
	seedFlag   = flag.Uint64("seed", rand.Uint64()>>40, "of the first script; another one in each run, if not given")
	scripts    = flag.Int("scripts", 12, "how many to perform; the seed grows by one")
	perCut     = flag.Int("states", 4, "to try of a cut")
	exhaustive = flag.Bool("exhaustive", false, "try every cut, and of a small run every state")
)

// What callers were told still holds after a power cut at any moment, whatever the disk did
// with the writes that were not synced.
func TestNoRacePowerLoss(t *testing.T) {
	t.Parallel()
	var tried figures
	for i := range *scripts {
		s := write(*seedFlag+uint64(i), 14, "uri", "times", "short")
		check(t, s, *perCut, &tried)
		if t.Failed() {
			break
		}
	}
	t.Log(tried.String())
}

// Remembered documents are found near after the cut, and each of them is whole.
func TestNoRacePowerLossOfTexts(t *testing.T) {
	t.Parallel()
	var tried figures
	for i := range (*scripts + 2) / 3 {
		if check(t, write(*seedFlag+uint64(i), 10, "pages"), *perCut, &tried); t.Failed() {
			break
		}
	}
	t.Log(tried.String())
}

// A small run of each durability, at every cut. With -exhaustive, all states are tried, except
// those with torn pages, of which some are.
func TestNoRaceEveryStateOfASmallRun(t *testing.T) {
	t.Parallel()
	states := 2
	if *exhaustive {
		states = 1 << 12
	}
	var tried figures
	for i, durability := range []string{"always", "interval", "none"} {
		check(t, script{seed: uint64(i), durability: durability, checkpoint: 1, steps: []step{
			{"add", "uri", 3}, {"add", "uri", 600}, {"add", "times", 40}, {"add", "short", 41}, {"add", "pages", 30}, {"rest", "", 150}, {"add", "uri", 5},
			{"kill after operations", "", 9}, {"add", "uri", 300}, {"reopen", "", 0},
		}}, -states, &tried)
	}
	t.Log(tried.String())
}

// figures count what was tried.
type figures struct{ operations, cuts, states int }

func (f figures) String() string {
	return fmt.Sprintf("%d states of the disk at %d cuts in %d operations", f.states, f.cuts, f.operations)
}

// check performs a script and cuts the power after its operations. It tries perCut states of
// each cut; -n means all states of each cut, n at most.
func check(t *testing.T, s script, perCut int, tried *figures) {
	t.Helper()
	bad, _ := find(t, s, perCut, tried)
	if bad == nil {
		return
	}
	for i := len(s.steps) - 1; i >= 0; i-- { // a shorter script that fails too
		shorter := s
		shorter.steps = slices.Delete(slices.Clone(s.steps), i, i+1)
		if again, ok := find(t, shorter, 3, &figures{}); ok && again != nil {
			s, bad = shorter, again
		}
	}
	t.Errorf("%v\n%v", s, bad)
}

// failure is a cut after which something is wrong.
type failure struct {
	err  error
	lost []string
	last []string // operations before the cut
}

func (f *failure) String() string {
	return fmt.Sprintf("%v\nlost by the cut:\n\t%s\nthe last operations before it:\n\t%s", f.err, strings.Join(f.lost, "\n\t"), strings.Join(f.last, "\n\t"))
}

// find returns the first failure; ok is false if the script cannot be performed.
func find(t *testing.T, s script, perCut int, tried *figures) (bad *failure, ok bool) {
	base := scratch(t)
	root := filepath.Join(base, "run")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	log, clock := perform(t, s, root)
	if t.Failed() {
		return nil, false
	}
	entries := log.Entries()
	rng := rand.New(rand.NewPCG(s.seed, 3))
	disk, known, passed := NewDisk(root), known{}, &sync.Map{}
	for i, e := range entries {
		if e.Note != nil {
			known.take(e.Note, s.durability)
			passed.Clear()
		} else {
			disk.Apply(e)
			tried.operations++
		}
		// Notes that follow must be taken first: the callers were told.
		if i+1 < len(entries) && entries[i+1].Note != nil || perCut > 0 && !*exhaustive && rng.IntN(8) > 0 && i+1 < len(entries) {
			continue
		}
		tried.cuts++
		states := choose(disk.Intact(), perCut, rng)
		tried.states += len(states)
		if bad := try(t, base, recovery{s, clock, known, passed}, states); bad != nil {
			bad.last = describe(entries[:i+1], root)
			return bad, true
		}
	}
	return nil, true
}

// choose returns the states of a cut to try.
func choose(intact State, perCut int, rng *rand.Rand) (states []State) {
	if perCut < 0 {
		if ways := intact.Ways(1 - perCut); ways <= -perCut {
			for i := range ways {
				states = append(states, intact.Nth(i))
			}
			perCut = 1
		} else {
			perCut = min(-perCut, 200)
		}
	}
	states = append(states, intact.Oldest())
	for len(states) < perCut {
		states = append(states, intact.Random(rng))
	}
	return states
}

// try tries states, some at a time, and shrinks a bad one as far as possible.
func try(t *testing.T, base string, r recovery, states []State) *failure {
	errs := make([]error, len(states))
	var wg sync.WaitGroup
	slots := make(chan bool, 4)
	for i, s := range states {
		slots <- true
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = one(base, r, s)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			continue
		}
		small := states[i].Shrink(func(s State) bool { return one(base, r, s) != nil })
		return &failure{err: one(base, r, small), lost: small.Lost()}
	}
	return nil
}

// one makes a state and starts from it, unless it has done so from a state that is the same byte
// by byte: many are, because cuts before the next sync can leave the same state.
func one(base string, r recovery, s State) error {
	dir, err := os.MkdirTemp(base, "state")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root := filepath.Join(dir, "disk")
	if err := s.Make(root); err != nil {
		return err
	}
	disk, err := diskOf(root)
	if err != nil {
		return err
	}
	digest := disk.digest()
	if _, had := r.passed.LoadOrStore(digest, true); had {
		return nil
	}
	if err := r.verify(disk, filepath.Join(dir, "again")); err != nil {
		r.passed.Delete(digest)
		return err
	}
	return nil
}

// scratch returns a folder in memory, if the system has one: what counts is in the log.
func scratch(t *testing.T) string {
	if dir, err := os.MkdirTemp("/dev/shm", "powerloss"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

func describe(entries []Entry, root string) []string {
	var lines []string
	for _, e := range entries {
		if e.Note != nil {
			lines = append(lines, fmt.Sprintf("(%.60s)", strings.ReplaceAll(fmt.Sprintf("%T %v", e.Note, e.Note), "powerloss.", "")))
			continue
		}
		line := e.Op.Label + " " + strings.TrimPrefix(e.Op.Path, root)
		if e.Op.Kind == disk.OpWrite {
			line += fmt.Sprintf(" at %d, %d bytes", e.Op.Off, len(e.Op.Data))
		}
		if e.Err != nil {
			line += ": " + e.Err.Error()
		}
		lines = append(lines, line)
	}
	return lines[max(0, len(lines)-16):]
}
