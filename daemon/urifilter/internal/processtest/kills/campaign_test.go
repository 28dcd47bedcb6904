package kills_test

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// campaign kills the real binary under load at random moments, round after round, some of them
// while it starts.
type campaign[C any] struct {
	filters    string // the setting
	checkpoint string // checkpoint_bytes: small, so that some kills fall into one
	env        []string
	clients    []C // at work at the same time
	load       func(C, *processtest.Process) error
	// check compares the daemon with what the client knows, after each start; last marks the
	// last time, when there is time to check everything.
	check    func(c C, p *processtest.Process, last bool) error
	answered func(C) bool // whether the client had an answer while it was at work
	verified string       // what `urifilter verify` prints at the end
}

// run returns the last daemon, which has been checked and still runs.
func (k campaign[C]) run(t *testing.T, rounds int) *processtest.Process {
	t.Helper()
	dir := t.TempDir()
	env := append([]string{"URIFILTER_FILTERS=[" + k.filters + "]", "URIFILTER_CHECKPOINT_BYTES=" + k.checkpoint}, k.env...)
	each := func(p *processtest.Process, round int, do func(C) error) {
		t.Helper()
		var wg sync.WaitGroup
		for i, c := range k.clients {
			wg.Go(func() {
				if err := do(c); err != nil {
					t.Errorf("round %d, client %d: %v", round, i, err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.Fatalf("%s", p.Log)
		}
	}
	// On a busy machine some clients may have no answer before any of the kills. Then there are more,
	// which come later.
	for round, within := 0, 400; round < rounds || slices.ContainsFunc(k.clients, func(c C) bool { return !k.answered(c) }); round++ {
		if round >= rounds {
			within *= 2
		}
		if round%7 == 6 { // killed while it recovers
			p := processtest.Begin(t, dir, env)
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
			_ = p.End(syscall.SIGKILL)
		}
		p := processtest.Start(t, dir, env, "--durability", []string{"always", "always", "interval", "none"}[round%4])
		each(p, round, func(c C) error { return k.check(c, p, false) })
		killer := time.AfterFunc(time.Duration(5+rand.IntN(within))*time.Millisecond, func() { p.Signal(syscall.SIGKILL) })
		each(p, round, func(c C) error { return k.load(c, p) })
		killer.Stop()
		_ = p.Ended() // it was killed
		if strings.Contains(p.Log.String(), "panic") {
			t.Fatalf("round %d:\n%s", round, p.Log)
		}
	}
	if out, err := exec.Command(processtest.Binary(t), "verify", "--data-dir", dir).CombinedOutput(); err != nil || !strings.Contains(string(out), k.verified) {
		t.Errorf("verify: %v\n%s", err, out)
	}
	p := processtest.Start(t, dir, env)
	each(p, rounds, func(c C) error { return k.check(c, p, true) })
	return p
}

// sample returns what is to be checked of what was acknowledged: all at the last time, else what came
// since the last time, and ten older ones.
func sample[T any](acked []T, checked *int, last bool) []T {
	if last {
		return acked
	}
	some := slices.Clone(acked[*checked:])
	for _, i := range rand.Perm(*checked)[:min(10, *checked)] {
		some = append(some, acked[i])
	}
	*checked = len(acked)
	return some
}

// end ends a daemon as its operator would.
func end(t *testing.T, p *processtest.Process) {
	t.Helper()
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.Log)
	}
}
