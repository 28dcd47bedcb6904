package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// Each host has a control group of its own, urifilter-sandbox/INDEX-NUMBER, in the
// hierarchies in which systemd keeps its services: otherwise two hosts would mistake each
// other's ssh.service for their own. The groups also identify every process of a host,
// however it was created, so that none is left behind.

// endWait bounds the wait for a host's processes to end after they were killed. On a busy
// machine they wait for its disk.
const endWait = 2 * time.Minute

// hierarchies returns the mount points of cgroup version 2 and of systemd's own in version 1.
func hierarchies() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return findHierarchies(string(mounts)), nil
}

func findHierarchies(mountinfo string) []string {
	var found []string
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if len(place) < 5 || len(kind) < 3 {
			continue
		}
		if kind[0] == "cgroup2" || kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), "name=systemd") {
			found = append(found, place[4])
		}
	}
	return found
}

// cgroups returns the control groups of a host, in all hierarchies.
func cgroups(name string) ([]string, error) {
	tops, err := hierarchies()
	for i := range tops {
		tops[i] = filepath.Join(tops[i], "urifilter-sandbox", name)
	}
	return tops, err
}

func cgroupName(index, number int) string { return fmt.Sprintf("%d-%d", index, number) }

// processes returns the processes of a control group and of all groups below it.
func processes(cgroup string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(cgroup, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return ignoreGone(err)
		}
		text, err := os.ReadFile(path)
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return ignoreGone(err)
	})
	return pids, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoDevice) {
		return nil
	}
	return err
}

// endProcesses kills everything that runs in a sandbox's hosts and removes their control groups.
func endProcesses(ctx context.Context, index int) error {
	return emptyCgroups(ctx, fmt.Sprintf("%d-*", index))
}

// emptyCgroups kills the processes of the control groups whose names match the pattern, and
// removes the groups.
func emptyCgroups(ctx context.Context, pattern string) error {
	groups, err := matchCgroups(pattern)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(endWait)
	for {
		left := 0
		for _, g := range groups {
			pids, err := processes(g)
			if err != nil {
				return err
			}
			left += len(pids)
			for _, pid := range pids {
				kill(pid)
			}
		}
		if left == 0 {
			return removeCgroups(ctx, pattern)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes in %s do not end", left, strings.Join(groups, ", "))
		}
		if err := host.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func matchCgroups(pattern string) ([]string, error) {
	all, err := cgroups(pattern)
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, one := range all {
		found, err := filepath.Glob(one)
		if err != nil {
			return nil, err
		}
		groups = append(groups, found...)
	}
	return groups, nil
}

// removeCgroups removes empty control groups, the lowest first.
func removeCgroups(ctx context.Context, pattern string) error {
	groups, err := matchCgroups(pattern)
	if err != nil {
		return err
	}
	for _, g := range groups {
		var folders []string
		err := filepath.WalkDir(g, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				folders = append(folders, path)
			}
			return ignoreGone(err)
		})
		if err != nil {
			return err
		}
		slices.Reverse(folders)
		for _, f := range folders {
			if err := removeCgroup(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroup removes one. The kernel no longer lists a process that has begun to end, but
// calls the group busy until it has ended: if that process was the last to have a disk's file
// system mounted, this takes until the file system is written.
func removeCgroup(ctx context.Context, path string) error {
	for deadline := time.Now().Add(endWait); ; {
		err := os.Remove(path)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
		if err := host.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// groupRuns reports whether a control group has processes.
func groupRuns(name string) bool {
	groups, err := cgroups(name)
	if err != nil {
		return false
	}
	for _, g := range groups {
		if pids, err := processes(g); err != nil || len(pids) > 0 {
			return true
		}
	}
	return false
}
