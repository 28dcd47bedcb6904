package archive_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// `bitmap update`, killed at random moments, leaves the last version that was reported as
// written, or the next one, intact.
func TestKilledUpdate(t *testing.T)       { killUpdates(t, 2) }
func TestSystemKilledUpdate(t *testing.T) { killUpdates(t, 8) }

func killUpdates(t *testing.T, rounds int) {
	t.Parallel()
	uri := mongotest.Start(t)
	path := processtest.Binary(t)
	before, after := 0, 0
	for round := range rounds {
		// Each has its own database: the lease of a dead one would block the next for a minute.
		env := append(processtest.WithArchive(uri), fmt.Sprintf("URIFILTER_MONGODB_DATABASE=round%d", round))
		dir := t.TempDir()
		p := processtest.Start(t, dir, env)
		p.WantFresh(0, 1000, 1000)
		began := time.Now()
		if status, answer, _ := p.Post(t.Context(), "/api/v1/filters/uri/writeback", ""); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		takes := time.Since(began)
		p.WantFresh(1000, 2000, 1000)
		if err := p.End(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "bitmap", "update", "uri")
		cmd.Env = append(append(os.Environ(), "URIFILTER_DATA_DIR="+dir), env...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killer := time.AfterFunc(rand.N(takes*5/2), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		killer.Stop()
		processtest.MustCommand(t, dir, env, "bitmap", "verify", "--all")
		other := processtest.Start(t, t.TempDir(), env)
		other.WantFresh(0, 1000, 0)
		switch n := other.Fresh(1000, 2000); n {
		case 0:
			after++
		case 1000:
			before++
		default:
			t.Errorf("of the second thousand %d are new: half of a version", n)
		}
		_ = other.End(syscall.SIGKILL)
		// The store was open at the kill, and has everything.
		p = processtest.Start(t, dir, env)
		p.WantFresh(0, 2000, 0)
		_ = p.End(syscall.SIGKILL)
	}
	t.Logf("%d times the version before, %d times the one after", before, after)
}

// A daemon that is killed during a restore has, at its next start, the complete filter or
// none, even if there is no archive by then.
func TestKilledWhileRestoring(t *testing.T) {
	t.Parallel()
	server := mongotest.New(t, mongotest.Options{})
	env := processtest.WithArchive(server.URI())
	p := processtest.Start(t, t.TempDir(), env)
	p.WantFresh(0, 5000, 5000)
	if status, answer, _ := p.Post(t.Context(), "/api/v1/filters/uri/writeback", ""); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	began := time.Now()
	_ = processtest.Start(t, t.TempDir(), env).End(syscall.SIGKILL)
	takes := time.Since(began)
	whole, none := 0, 0
	var dirs []string
	for range 8 {
		dir := t.TempDir()
		dirs = append(dirs, dir)
		p := processtest.Begin(t, dir, env)
		p.AwaitLog("filter is being restored from the archive")
		time.Sleep(rand.N(takes * 5 / 4))
		_ = p.End(syscall.SIGKILL)
	}
	server.Kill()
	for _, dir := range dirs {
		p := processtest.Begin(t, dir, env)
		processtest.AwaitLive(t, p)
		switch status, answer, _ := p.Post(t.Context(), "/api/v1/check", processtest.List(t, "x")); status {
		case http.StatusOK:
			whole++
			p.WantFresh(0, 5000, 0)
		case http.StatusServiceUnavailable:
			none++
		default:
			t.Errorf("%d %s", status, answer)
		}
		_ = p.End(syscall.SIGKILL)
	}
	t.Logf("whole %d times, not there %d times", whole, none)
}
