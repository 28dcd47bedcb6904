package campaign

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testserver"
)

// fleet are the processes that together are the downloader. One of them, the master, is called.
type fleet struct {
	t       *testing.T
	dir     string
	binary  string
	env     []string
	members []*member
	ended   func() // is called when one of them has ended
	kills   int
	stops   int
}

// member is one process, which has many lives.
type member struct {
	role string
	addr string // its listener
	life int
	testserver.Process
}

// ready is what a process says when it serves.
const ready = `"msg":"ready"`

func newFleet(t *testing.T, ended func(), roles []string, env ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), env: env, ended: ended}
	f.binary = filepath.Join(f.dir, "uridownloader")
	build := exec.Command("go", "build", "-o", f.binary, "github.com/cr-clawer/urifilter/daemon/uridownloader")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, text)
	}
	for _, role := range roles {
		m := &member{role: role, addr: testserver.Free(t)}
		f.members = append(f.members, m)
		t.Cleanup(m.Kill)
		f.start(m)
	}
	return f
}

// command is the command line of a further life of a member.
func (f *fleet) command(m *member) *exec.Cmd {
	m.life++
	cmd := exec.Command(f.binary, m.role, "--data-dir", filepath.Join(f.dir, "data"), "--listen", m.addr, "--allow-private")
	cmd.Env = append(append(os.Environ(), "URIDOWNLOADER_LOG_FORMAT=json"), f.env...)
	return cmd
}

func (f *fleet) log(m *member) string {
	return filepath.Join(f.dir, fmt.Sprintf("%s-%s-%d.log", m.role, strings.ReplaceAll(m.addr, ":", "-"), m.life))
}

// start starts a member at the address that callers know, and waits until it serves.
func (f *fleet) start(m *member) {
	f.t.Helper()
	for range 100 {
		cmd := f.command(m)
		if m.Start(f.t, cmd, f.log(m), []string{ready}, []string{"address already in use"}) {
			return
		}
		time.Sleep(100 * time.Millisecond) // somebody has the port for a moment
	}
	f.t.Fatalf("%s: its address %s stays taken", m.role, m.addr)
}

// strike ends a member in one of several ways, and starts it again.
func (f *fleet) strike(m *member, random *rand.Rand) {
	switch random.IntN(8) {
	case 0: // in good order
		f.stops++
		m.Signal(syscall.SIGTERM)
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond) // which it may not survive
		m.Kill()
	case 1: // again, while it starts
		f.kills += 2
		m.Kill()
		cmd := f.command(m)
		if err := cmd.Start(); err != nil {
			f.t.Fatal(err)
		}
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says that it was killed
	default:
		f.kills++
		m.Kill()
	}
	f.ended()
	f.start(m)
}

// faults are what the processes themselves say is wrong.
func (f *fleet) faults() []string {
	logs, err := filepath.Glob(filepath.Join(f.dir, "*.log"))
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return append(all, err.Error())
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"level":"ERROR"`) || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
				all = append(all, filepath.Base(log)+": "+strings.TrimSpace(line))
			}
		}
	}
	return all
}
