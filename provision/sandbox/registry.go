package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
)

// The registry of the sandboxes of this machine is the folder /run/urifilter-sandbox:
//
//	forwarding    exists if we switched IPv4 forwarding on: the previous value
//	inotify       exists if we let root watch more: the previous limit
//	INDEX/owner   the owner of the index
//	INDEX/NUMBER  network name space of a host
//
// The folder is locked while an index is taken or given back, and while links and rules
// change. It disappears with a reboot, as do processes, links and rules.
const registry = "/run/urifilter-sandbox"

// owner is the owner of an index.
type owner struct {
	Dir string `json:"dir"`
	// Process is the creator and Started is when it began, in the kernel's ticks, so that a
	// later process with the same number is not mistaken for it. 0: the sandbox stays.
	Process int    `json:"process,omitempty"`
	Started uint64 `json:"started,omitempty"`
}

func entry(index int) string { return filepath.Join(registry, strconv.Itoa(index)) }

// claim gives the sandbox of a folder an index of its own: the one it has, if that still
// belongs to it, or a free one.
func claim(ctx context.Context, dir string, have int, keep bool) (int, error) {
	lock, err := makeAndLock(ctx, registry)
	if err != nil {
		return -1, err
	}
	defer lock.Close()
	owners, err := readOwners()
	if err != nil {
		return -1, err
	}
	o := owner{Dir: dir}
	if !keep {
		o.Process = os.Getpid()
		if o.Started, err = started(o.Process); err != nil {
			return -1, err
		}
	}
	for index, other := range owners {
		if other.Dir == dir {
			if other.Process == 0 {
				return index, nil // once kept, always kept
			}
			return index, writeOwner(index, o)
		}
	}
	taken, err := subnetsInUse()
	if err != nil {
		return -1, err
	}
	// The index that the folder had before the machine was rebooted, or else one that its name
	// leads to, is tried first: addresses stay the same if possible.
	if have < 0 {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(dir))
		have = int(sum.Sum32() % 256)
	}
	for i := range 256 {
		index := (have + i) % 256
		if _, ok := owners[index]; ok || taken[index] {
			continue
		}
		return index, writeOwner(index, o)
	}
	return -1, fmt.Errorf("no free subnet in 10.88.0.0/16\nhint: sandboxes in use are listed in %s", registry)
}

func writeOwner(index int, o owner) error {
	if err := os.MkdirAll(entry(index), 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(entry(index), "owner"), text)
}

// claimed returns the index of the folder's sandbox, -1 if it has none.
func claimed(ctx context.Context, dir string) (int, error) {
	lock, err := lockFolder(ctx, registry)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	defer lock.Close()
	owners, err := readOwners()
	for index, o := range owners {
		if o.Dir == dir {
			return index, err
		}
	}
	return -1, err
}

// vacate removes everything that an index names, outside of its sandbox's folder and the registry.
func vacate(ctx context.Context, index int) error {
	if err := endProcesses(ctx, index); err != nil {
		return err
	}
	lock, err := makeAndLock(ctx, registry)
	if err != nil {
		return err
	}
	defer lock.Close()
	return networkDown(holding(ctx, lock), index)
}

// giveBack frees an index that is vacated. Freeing the last one removes the registry.
func giveBack(ctx context.Context, index int) error {
	lock, err := makeAndLock(ctx, registry)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := os.RemoveAll(entry(index)); err != nil {
		return err
	}
	owners, err := readOwners()
	if err != nil || len(owners) > 0 {
		return err
	}
	if err := restoreLimits(ctx); err != nil {
		return err
	}
	if err := removeCgroups(ctx, ""); err != nil {
		return err
	}
	_ = os.Remove("/run/systemd/nspawn") // fails if something of another nspawn is in it
	return os.RemoveAll(registry)
}

// reap removes sandboxes whose creators have died. One that cannot be removed is left for the
// next reap.
func reap(ctx context.Context, out io.Writer) {
	owners, err := readOwners()
	if err != nil {
		fmt.Fprintf(out, "sandboxes whose creators have died: %v\n", err)
		return
	}
	for index, o := range owners {
		if o.alive() {
			continue
		}
		err := withLock(ctx, o.Dir, func(ctx context.Context) error { return reapOne(ctx, index, o) })
		if err != nil {
			fmt.Fprintf(out, "sandbox %s, whose creator has died, stays for now: %v\n", o.Dir, err)
		}
	}
}

func reapOne(ctx context.Context, index int, o owner) error {
	// Its folder may be gone, and the lock of the folder with it.
	lock, err := lockFolder(ctx, entry(index))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	now, err := readOwners()
	if err != nil || now[index] != o {
		return err // or the folder is in use again
	}
	return down(holding(ctx, lock), o.Dir)
}

func readOwners() (map[int]owner, error) {
	entries, err := os.ReadDir(registry)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	owners := map[int]owner{}
	for _, e := range entries {
		index, notNumber := strconv.Atoi(e.Name())
		if notNumber != nil {
			continue
		}
		text, readErr := os.ReadFile(filepath.Join(registry, e.Name(), "owner"))
		if readErr != nil {
			continue // being made or removed; its subnet shows whether it is in use
		}
		var o owner
		if err := json.Unmarshal(text, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(registry, e.Name(), "owner"), err)
		}
		owners[index] = o
	}
	return owners, err
}

// subnetsInUse returns the indices whose addresses this machine already uses for something else.
func subnetsInUse() (map[int]bool, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	taken := map[int]bool{}
	for _, a := range addrs {
		network, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		for index := range 256 {
			if network.Masked().Overlaps(subnet(index)) {
				taken[index] = true
			}
		}
	}
	return taken, nil
}

// alive reports whether the sandbox must stay.
func (o owner) alive() bool {
	if o.Process == 0 {
		return true
	}
	at, err := started(o.Process)
	return err == nil && at == o.Started
}
