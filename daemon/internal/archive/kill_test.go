package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// The victim is this test's binary, which writes back until it is killed.
const (
	victimEnv      = "URIFILTER_ARCHIVE_VICTIM" // the URI; the variables below are set with it
	victimDatabase = "URIFILTER_ARCHIVE_DATABASE"
	victimFrom     = "URIFILTER_ARCHIVE_FROM"
)

// victim repeatedly adds an item, writes back, and prints the item's number once the
// writeback was acknowledged.
func victim() {
	fail := func(err error) {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	from, err := strconv.ParseUint(os.Getenv(victimFrom), 10, 64)
	if err != nil {
		fail(err)
	}
	ctx := context.Background()
	a, err := Open(ctx, Options{URI: os.Getenv(victimEnv), Database: os.Getenv(victimDatabase), Keep: 2, Lease: victimLease})
	if err != nil {
		fail(err)
	}
	h := header(1)
	m, err := bloom.New(h)
	if err != nil {
		fail(err)
	}
	src := &set{Map: m}
	fmt.Println("ready")
	for i := from; ; i++ {
		src.add(key(h, 0, i)) // items before from are only in the archive
		if err := writebackAfter(ctx, a, src); err != nil {
			fail(err)
		}
		fmt.Println(i)
	}
}

// writebackAfter writes back once the lease of a killed victim has ended. The lease may
// begin after the victim's death: the server still carries out what the victim had sent.
func writebackAfter(ctx context.Context, a *Archive, src Source) error {
	for {
		_, err := a.Writeback(ctx, spec("uri"), src, nil)
		var held *LeaseError
		if !errors.As(err, &held) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

const victimLease = 300 * time.Millisecond

// TestKilledAtAnyMoment kills a process that writes back. The newest version is always
// whole and has every item of a writeback that was acknowledged, and the next process
// continues from there.
func TestKilledAtAnyMoment(t *testing.T)       { killAtAnyMoment(t, 5) }
func TestSystemKilledAtAnyMoment(t *testing.T) { killAtAnyMoment(t, 25) }

func killAtAnyMoment(t *testing.T, rounds int) {
	onServersAlone(t, func(t *testing.T, r *rig) {
		h := header(1)
		acknowledged := uint64(0) // items 1 to this
		a := r.open()
		var writebacks []int
		for range rounds {
			if len(writebacks) == 0 { // in any order, so that even a few rounds wait for some
				writebacks = rand.Perm(4)
			}
			acknowledged = r.killVictim(acknowledged+1, writebacks[0], time.Duration(rand.IntN(40))*time.Millisecond)
			writebacks = writebacks[1:]
			if acknowledged == 0 {
				continue
			}
			got, _ := r.restored(a, "uri")
			for i := uint64(1); i <= acknowledged; i++ {
				if got.lacks(key(h, 0, i)) != 0 {
					t.Fatalf("item %d of %d acknowledged is lost", i, acknowledged)
				}
			}
		}
		if acknowledged < uint64(rounds)/3 { // a round waits for 1.5 on average
			t.Errorf("only %d writebacks in %d rounds: too few to try much", acknowledged, rounds)
		}
		if err := writebackAfter(t.Context(), a, newSet(t, h)); err != nil {
			t.Fatal(err)
		}
		r.noOrphans(a)
	})
}

// killVictim starts a victim and kills it the given time after that many writebacks. It
// returns the last item that was acknowledged, or from-1 if none was.
func (r *rig) killVictim(from uint64, writebacks int, after time.Duration) uint64 {
	r.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+r.opt.URI, victimDatabase+"="+r.opt.Database, victimFrom+"="+strconv.FormatUint(from, 10))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	last := from - 1
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "error:") {
			r.t.Errorf("victim: %s", line)
			break
		}
		if line != "ready" {
			if last, err = strconv.ParseUint(line, 10, 64); err != nil {
				r.t.Errorf("victim printed %q", line)
			}
		}
		if writebacks == 0 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
		writebacks--
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // was killed
	return last
}
