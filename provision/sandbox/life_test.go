package sandbox_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/provision/sandbox"
)

func twoHosts() []sandbox.Spec {
	return []sandbox.Spec{{Name: "a", Disks: map[string]int64{"/opt": 8 << 20}}, {Name: "b"}}
}

// TestSystemUpAgain continues from what exists: nothing to do, a host that is down, one more
// host, the work of a creator that was killed.
func TestSystemUpAgain(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir := t.TempDir()
	first := up(t, sandbox.Options{Dir: dir, Hosts: twoHosts()[:1], Keep: true})
	execute(t, first.Hosts[0], "echo kept >/root/kept; sync")
	if !first.Changed() {
		t.Error("the first up says unchanged")
	}
	same := up(t, sandbox.Options{Dir: dir, Hosts: twoHosts()[:1], Keep: true})
	if same.Changed() {
		t.Error("the second up says that it has changed something")
	}
	if same.Hosts[0].HostKey != first.Hosts[0].HostKey || same.Hosts[0].Password != first.Hosts[0].Password {
		t.Error("the second up has another key or password")
	}
	if err := first.Hosts[0].PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	more := up(t, sandbox.Options{Dir: dir, Hosts: twoHosts(), Keep: true})
	if len(more.Hosts) != 2 || !more.Changed() {
		t.Errorf("%d hosts, changed %v; want 2, true", len(more.Hosts), more.Changed())
	}
	if got := execute(t, more.Host("a"), "cat /root/kept"); got != "kept" {
		t.Errorf("the host that was down has lost a file: %q", got)
	}
	opened, err := sandbox.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if opened.Host("b") == nil || opened.Host("b").HostKey != more.Host("b").HostKey || !opened.Host("b").Up() {
		t.Errorf("opened, host b is %+v", opened.Host("b"))
	}
	_, err = sandbox.Up(t.Context(), sandbox.Options{Dir: dir, Hosts: []sandbox.Spec{{Name: "a", Release: "trixie"}}})
	if err == nil || !strings.Contains(err.Error(), "is there with bookworm") {
		t.Errorf("another release: %v", err)
	}
	if !opened.Host("a").Up() {
		t.Error("a refused up has taken down what was there")
	}
}

// TestSystemHostCannotBoot has a host whose disk cannot be mounted.
func TestSystemHostCannotBoot(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir := filepath.Join(t.TempDir(), "box")
	specs := append(twoHosts(), sandbox.Spec{Name: "c", Disks: map[string]int64{"/etc/passwd": 8 << 20}})
	_, err := sandbox.Up(t.Context(), sandbox.Options{Dir: dir, Hosts: specs})
	if err == nil || !strings.Contains(err.Error(), "host c: boot: it has ended") || !strings.Contains(err.Error(), "mkdir") {
		t.Errorf("%v", err)
	}
	for _, p := range traces(t, dir, -1) {
		t.Errorf("left behind: %s", p)
	}
}

// TestSystemMachineRebooted removes everything but the files, as a reboot does.
func TestSystemMachineRebooted(t *testing.T) {
	t.Parallel()
	s := up(t, sandbox.Options{Hosts: twoHosts()[:1], Repository: true, Keep: true})
	execute(t, s.Hosts[0], "echo kept >/root/kept; sync")
	index := indexOf(s.Dir)
	groups, err := filepath.Glob(fmt.Sprintf("/sys/fs/cgroup/*/urifilter-sandbox/%d-1/cgroup.procs", index))
	if err != nil || len(groups) == 0 {
		t.Fatal(groups, err)
	}
	script := fmt.Sprintf(`set -e
		for p in $(cat %s | sort -u); do kill -9 $p; done
		ip link delete ufsb%[2]dh11; ip link delete ufsb%[2]d
		nft delete table ip urifilter_sandbox_%[2]d
		umount %[3]s/%[2]d/11; rm -r %[3]s/%[2]d`, groups[0], index, registry)
	if err := s.Hosts[0].Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again := up(t, sandbox.Options{Dir: s.Dir, Hosts: twoHosts()[:1], Keep: true})
	if again.Hosts[0].Address != s.Hosts[0].Address {
		t.Errorf("address %s, before %s", again.Hosts[0].Address, s.Hosts[0].Address)
	}
	if got := execute(t, again.Hosts[0], "cat /root/kept; /usr/lib/apt/apt-helper download-file "+again.Repository.KeyURL+" /root/key >&2; head -c 10 /root/key"); got != "kept\n-----BEGIN" {
		t.Errorf("after the reboot: %q", got)
	}
}

// TestSystemSideBySide creates and removes sandboxes at the same time, as tests of several
// packages do.
func TestSystemSideBySide(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	parent := t.TempDir()
	var addresses sync.Map
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for round := range 2 {
				dir := filepath.Join(parent, fmt.Sprint(i, round))
				s, err := sandbox.Up(t.Context(), sandbox.Options{Dir: dir, Hosts: []sandbox.Spec{{Name: "same"}}})
				if err != nil {
					t.Error(err)
				} else {
					name := fmt.Sprint("box", i)
					if other, taken := addresses.LoadOrStore(s.Hosts[0].Address, name); taken {
						t.Errorf("%s and %v have one address", name, other)
					}
					_, err := s.Hosts[0].Exec(t.Context(), "hostname "+name)
					if err != nil {
						t.Error(err)
					}
					if got, err := s.Hosts[0].Exec(t.Context(), "hostname"); strings.TrimSpace(got) != name || err != nil {
						t.Errorf("%q, %v: want %s", got, err, name)
					}
					addresses.Delete(s.Hosts[0].Address)
				}
				index := indexOf(dir)
				if err := sandbox.Down(context.Background(), dir); err != nil {
					t.Error(err)
				}
				noTraces(t, dir, index)
			}
		})
	}
	wg.Wait()
}
