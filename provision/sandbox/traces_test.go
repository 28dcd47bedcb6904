package sandbox_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/sandbox"
)

const (
	registry   = "/run/urifilter-sandbox"
	forwarding = "/proc/sys/net/ipv4/ip_forward"
	instances  = "/proc/sys/fs/inotify/max_user_instances"
)

// indexOf returns the index of the sandbox in a folder, or -1 if it has none.
func indexOf(dir string) int {
	owners, _ := filepath.Glob(registry + "/*/owner")
	for _, path := range owners {
		text, err := os.ReadFile(path)
		var owner struct{ Dir string }
		if err == nil && json.Unmarshal(text, &owner) == nil && owner.Dir == dir {
			index, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return index
		}
	}
	return -1
}

// traces returns what exists of a sandbox on this machine. Other sandboxes may exist.
func traces(t *testing.T, dir string, index int) []string {
	t.Helper()
	var found []string
	bridge := fmt.Sprintf("ufsb%d", index)
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Name == bridge || strings.HasPrefix(l.Name, bridge+"h") {
			found = append(found, "link "+l.Name)
		}
	}
	rules, err := exec.Command("nft", "list", "tables").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, rules)
	}
	for line := range strings.Lines(string(rules)) {
		if strings.HasSuffix(strings.TrimSpace(line), fmt.Sprintf("urifilter_sandbox_%d", index)) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	own := fmt.Sprintf("%s/%d", registry, index)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, own+"/") || strings.Contains(line, dir) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		// A process that ends while it is read, or has ended, does not count.
		command, _ := os.ReadFile(p + "/cmdline")
		text := strings.ReplaceAll(string(command), "\x00", " ")
		if strings.Contains(text, dir) || strings.Contains(text, bridge+"-") || strings.Contains(text, own+"/") {
			found = append(found, "process "+text)
		}
	}
	for _, pattern := range []string{dir, own, "/sys/fs/cgroup/*/urifilter-sandbox/" + fmt.Sprint(index) + "-*", "/sys/fs/cgroup/urifilter-sandbox/" + fmt.Sprint(index) + "-*", "/run/systemd/nspawn/*/" + bridge + "-*"} {
		tops, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, top := range tops {
			_ = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
				if err == nil && len(found) < 100 {
					found = append(found, "file "+path)
				}
				return nil
			})
		}
	}
	devices, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if text, _ := os.ReadFile(d); strings.HasPrefix(string(text), dir) {
			found = append(found, "loop device on "+strings.TrimSpace(string(text)))
		}
	}
	return found
}

// noTraces waits until the kernel has released loop devices and links. That takes longer beside
// other sandboxes.
func noTraces(t *testing.T, dir string, index int) {
	t.Helper()
	var left []string
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		left = traces(t, dir, index)
		if len(left) == 0 {
			return
		}
		if text, err := os.ReadFile(fmt.Sprintf("%s/%d/owner", registry, index)); err == nil && !strings.Contains(string(text), dir) {
			t.Logf("index %d is another sandbox's by now", index)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, l := range left {
		t.Errorf("left behind: %s", l)
	}
}

func needSandbox(t *testing.T) {
	t.Helper()
	if err := sandbox.Missing(); err != nil {
		t.Skip(err)
	}
}

// limitsAlone returns the kernel's limits when the machine has no sandbox, or "" if it has one.
func limitsAlone(t *testing.T) string {
	t.Helper()
	_, before := os.Stat(registry)
	var are string
	for _, path := range []string{forwarding, instances} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		are += path + " " + string(text)
	}
	if _, after := os.Stat(registry); before == nil || after == nil {
		return ""
	}
	return are
}

func TestSystemDownLeavesNothing(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir := filepath.Join(t.TempDir(), "box")
	before := limitsAlone(t)
	s := up(t, sandbox.Options{Dir: dir, Hosts: twoHosts(), Repository: true})
	index := indexOf(dir)
	if index < 0 || len(traces(t, dir, index)) < 50 {
		t.Errorf("index %d, and of two hosts only this is seen: %q", index, traces(t, dir, index))
	}
	if err := s.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	noTraces(t, dir, index)
	if after := limitsAlone(t); before != "" && after != "" && after != before {
		t.Errorf("limits are %q; before they were %q", after, before)
	}
	if err := s.Down(t.Context()); err != nil {
		t.Errorf("down again: %v", err)
	}
	// A file that belongs to somebody else stays.
	mine := filepath.Join(dir, "mine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	up(t, sandbox.Options{Dir: dir, Hosts: twoHosts()[:1]})
	if err := sandbox.Down(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "mine" {
		t.Errorf("left in the folder: %v, %v; want the file mine", left, err)
	}
}
