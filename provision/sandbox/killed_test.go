package sandbox_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/sandbox"
)

// envCreate names a folder and makes the test's program the creator of a sandbox in it, to be
// killed.
const (
	envCreate = "URIFILTER_TEST_SANDBOX_CREATE"
	envCache  = "URIFILTER_TEST_SANDBOX_CACHE" // with that cache
	envKeep   = "URIFILTER_TEST_SANDBOX_KEEP"  // and to be kept
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envCreate); dir != "" {
		_, err := sandbox.Up(context.Background(), sandbox.Options{Dir: dir, Cache: os.Getenv(envCache), Hosts: twoHosts(), Keep: os.Getenv(envKeep) != ""})
		fmt.Printf("up %q\n", fmt.Sprint(err))
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

// moments are what can be seen of a creator as it proceeds, in order: each is a file, a link or a
// control group that one of its steps has just created. DIR is its folder, INDEX its index,
// CGROUPS the control group hierarchy of a systemd.
var moments = []string{
	"DIR",
	"DIR/state.json.new", // removed at once, and usually not seen
	registry + "/INDEX",
	"DIR/state.json",
	"DIR/id_ed25519",
	"/sys/class/net/ufsbINDEX",
	registry + "/INDEX/11",
	"/sys/class/net/ufsbINDEXh11",
	registry + "/INDEX/12",
	"/sys/class/net/ufsbINDEXh12/master",
	"DIR/hosts/a",
	"DIR/hosts/a/disk0",
	"DIR/hosts/a/boot.sh",
	"DIR/hosts/a/console", // opened before the host's own processes exist
	"CGROUPS/urifilter-sandbox/INDEX-11",
	"DIR/hosts/a/upper/home/deploy", // the middle of the host's preparation
	"DIR/hosts/b/prepared",
	"CGROUPS/urifilter-sandbox/INDEX-12/guest/payload/init.scope",
	"DIR/known_hosts",
}

// creator is a process that makes a sandbox, to be killed.
type creator struct {
	dir   string
	index int // the last one seen, because others may remove what a dead creator leaves
	cmd   *exec.Cmd
	ended chan string // what it says at the end
}

func startCreator(t *testing.T, dir string, env ...string) *creator {
	t.Helper()
	c := &creator{dir: dir, index: -1, ended: make(chan string, 1), cmd: exec.Command(os.Args[0], "-test.run=^$")}
	c.cmd.Env = append(append(os.Environ(), envCreate+"="+dir), env...)
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			line += err.Error()
		}
		c.ended <- strings.TrimSpace(line)
	}()
	return c
}

// reaches waits for a moment, or for the creator's end if the moment is missed.
func (c *creator) reaches(moment string) (seen bool, said string) {
	ended := false
	groups := "/sys/fs/cgroup"
	if _, err := os.Stat(groups + "/systemd"); err == nil { // cgroup version 1
		groups += "/systemd"
	}
	for {
		if strings.Contains(moment, "INDEX") && c.index < 0 {
			c.index = indexOf(c.dir)
		}
		path := strings.NewReplacer("DIR", c.dir, "INDEX", fmt.Sprint(c.index), "CGROUPS", groups).Replace(moment)
		if _, err := os.Lstat(path); err == nil {
			return true, said
		}
		if ended {
			return false, said
		}
		select {
		case said = <-c.ended:
			ended = true
		case <-time.After(200 * time.Microsecond):
		}
	}
}

func (c *creator) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	if c.index < 0 {
		c.index = indexOf(c.dir)
	}
}

// TestSystemCreatorKilled kills the process that makes a sandbox, at each of its steps.
func TestSystemCreatorKilled(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	if err := up(t, sandbox.Options{Hosts: twoHosts()}).Down(t.Context()); err != nil { // the cache exists now
		t.Fatal(err)
	}
	for _, moment := range moments {
		c := startCreator(t, filepath.Join(t.TempDir(), "box"))
		seen, said := c.reaches(moment)
		c.kill()
		if !seen && !strings.HasSuffix(moment, ".new") || said != "" && said != `up "<nil>"` {
			t.Errorf("the moment does not come; the creator says %s", said)
		}
		if err := sandbox.Down(t.Context(), c.dir); err != nil {
			t.Error(err)
		}
		noTraces(t, c.dir, c.index)
		if t.Failed() {
			t.Fatalf("a creator was killed at %s, seen: %v", moment, seen)
		}
	}
	// Nobody calls Down: the next Up does.
	c := startCreator(t, filepath.Join(t.TempDir(), "box"))
	if said := <-c.ended; said != `up "<nil>"` {
		t.Errorf("the creator says %s", said)
	}
	c.kill()
	up(t, sandbox.Options{Hosts: []sandbox.Spec{{Name: "next"}}})
	noTraces(t, c.dir, c.index)
}

// TestSystemKeptCreatorKilled continues with what a killed creator has made of a sandbox that was
// to be kept.
func TestSystemKeptCreatorKilled(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	for _, moment := range []string{
		registry + "/INDEX/11", "/sys/class/net/ufsbINDEXh11", "/sys/class/net/ufsbINDEXh12", "DIR/hosts/a/console", "DIR/hosts/a/upper/home/deploy",
	} {
		dir := filepath.Join(t.TempDir(), "box")
		c := startCreator(t, dir, envKeep+"=1")
		_, _ = c.reaches(moment)
		c.kill()
		s := up(t, sandbox.Options{Dir: dir, Hosts: twoHosts(), Keep: true})
		for _, h := range s.Hosts {
			conn, err := net.DialTimeout("tcp", net.JoinHostPort(h.Address, "22"), time.Minute)
			if err != nil {
				t.Fatalf("a creator was killed at %s; the next one's host is not reached: %v", moment, err)
			}
			conn.Close()
		}
		if got := execute(t, s.Host("b"), "id -un deploy; ip -4 -o route show default"); !strings.Contains(got, "deploy\ndefault via "+s.Gateway) {
			t.Errorf("a creator was killed at %s; the next one's host has %q", moment, got)
		}
		if err := s.Down(t.Context()); err != nil {
			t.Error(err)
		}
		noTraces(t, dir, c.index)
	}
}
