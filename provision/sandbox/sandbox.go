// Package sandbox makes throw-away Debian hosts on this machine, each with systemd as
// its PID 1, sshd and apt, on a network of their own: to rehearse a deployment, and for
// the tests of the toolkit. The hosts are containers of systemd-nspawn on cached root
// file systems. It needs root on a Debian machine, and it isolates nothing: whatever runs as
// root in a host must be trusted like root of the machine.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Options say what Up makes.
type Options struct {
	// Dir holds all that belongs to the sandbox: keys, inventory, the hosts' files.
	// Default .sandbox. The file system must be able to carry an overlay's upper layer
	// (ext4, xfs, tmpfs; not another overlay).
	Dir string
	// Cache holds the root file systems, shared between sandboxes and runs. Default
	// .cache/sandbox beside the go.mod above the working directory.
	Cache string
	// Hosts are the hosts that must exist. Hosts of an earlier Up that are not listed stay.
	Hosts []Spec
	// Repository serves a package repository with FerretDB to the hosts.
	Repository bool
	// Keep lets the sandbox outlive this process. Without it the next Up on the machine,
	// in any folder, removes it once this process has ended.
	Keep bool
	// Out receives progress messages about long operations; nil discards them.
	Out io.Writer
}

// Spec is a host that must exist.
type Spec struct {
	Name    string // letters, digits and dashes
	Release string // "bookworm" or "trixie"; "": bookworm
	// Password of the user deploy, who may use sudo with it. "": a random one.
	Password string
	// Disks are folders of the host with a small file system of their own, which can be
	// filled: {"/opt": 64 << 20}. In bytes, 8 MiB at least. Used only when the host is made.
	Disks map[string]int64
}

// Sandbox is a set of hosts that are up.
type Sandbox struct {
	Dir        string // absolute
	Hosts      []*Host
	Gateway    string // this machine's address on the hosts' network
	KeyFile    string // private key that logs in as root and deploy; KeyFile.pub is the public one
	KnownHosts string // path of a known_hosts file with every host's keys
	Inventory  string // path of an inventory with the hosts, all roles on the first

	// Repository is nil unless this or an earlier Up was asked for one.
	Repository *Repository

	state   state
	out     io.Writer
	changed atomic.Bool
}

// Up makes the hosts that do not exist yet and starts those that are down; it returns
// when all are booted and accept SSH connections. A sandbox that could not be completed is
// removed, unless it existed before.
func Up(ctx context.Context, o Options) (*Sandbox, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := Missing(); err != nil {
		return nil, err
	}
	reap(ctx, o.Out)
	lock, err := makeAndLock(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	ctx = holding(ctx, lock)
	existed := exists(filepath.Join(o.Dir, "state.json"))
	s, err := up(ctx, o)
	if err != nil && !existed {
		err = errors.Join(err, down(context.WithoutCancel(ctx), o.Dir))
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", o.Dir, err)
	}
	return s, nil
}

func up(ctx context.Context, o Options) (*Sandbox, error) {
	st, err := readState(o.Dir)
	if err != nil {
		return nil, err
	}
	if st.Index, err = claim(ctx, o.Dir, st.Index, o.Keep); err != nil {
		return nil, err
	}
	if err := st.add(o.Hosts); err != nil {
		return nil, err
	}
	if err := st.write(o.Dir); err != nil {
		return nil, err
	}
	s := st.sandbox(o.Dir, o.Out)
	if err := makeKey(ctx, s.KeyFile); err != nil {
		return nil, err
	}
	if err := s.networkUp(ctx); err != nil {
		return nil, err
	}
	if o.Repository || st.Repository != "" {
		if err := s.serveRepository(ctx, o.Cache); err != nil {
			return nil, err
		}
	}
	if err := s.each(func(h *Host) error { return h.make(ctx, o.Cache) }); err != nil {
		return nil, err
	}
	if err := s.writeKnownHosts(); err != nil {
		return nil, err
	}
	if err := s.writeInventory(); err != nil {
		return nil, err
	}
	return s, s.giveAway()
}

// Open returns the sandbox that an Up has made in dir, whatever has become of its hosts.
func Open(dir string) (*Sandbox, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	st, err := readState(dir)
	if err != nil {
		return nil, err
	}
	if len(st.Hosts) == 0 {
		return nil, fmt.Errorf("sandbox %s: not there\nhint: go tool mage sandbox:up", dir)
	}
	s := st.sandbox(dir, io.Discard)
	for _, h := range s.Hosts {
		if err := h.readKeys(); err != nil {
			return nil, err
		}
	}
	return s, s.readRepository()
}

// Changed reports whether Up had anything to do.
func (s *Sandbox) Changed() bool { return s.changed.Load() }

// Down ends the hosts and removes every trace of the sandbox.
func (s *Sandbox) Down(ctx context.Context) error { return Down(ctx, s.Dir) }

// Down removes the sandbox in dir, even one whose creator died halfway. It is no error if
// there is none.
func Down(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := Missing(); err != nil {
		return err
	}
	reap(ctx, io.Discard)
	if err := withLock(ctx, dir, func(ctx context.Context) error { return down(ctx, dir) }); err != nil {
		return fmt.Errorf("sandbox %s: %w", dir, err)
	}
	return nil
}

// down keeps the index until all else is gone, so that, if it is interrupted, the next one
// finds what is left.
func down(ctx context.Context, dir string) error {
	index, err := claimed(ctx, dir)
	if err != nil {
		return err
	}
	if index < 0 {
		return errors.Join(removeFiles(dir), removeEmpty(dir))
	}
	if err := vacate(ctx, index); err != nil {
		return err
	}
	if err := removeFiles(dir); err != nil {
		return err
	}
	if err := giveBack(ctx, index); err != nil {
		return err
	}
	return removeEmpty(dir)
}

// Host returns the host of that name, nil if there is none.
func (s *Sandbox) Host(name string) *Host {
	for _, h := range s.Hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// each calls do for all hosts at once and joins the errors.
func (s *Sandbox) each(do func(*Host) error) error {
	errs := make([]error, len(s.Hosts))
	var wg sync.WaitGroup
	for i, h := range s.Hosts {
		wg.Go(func() {
			if err := do(h); err != nil {
				errs[i] = fmt.Errorf("host %s: %w", h.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (o *Options) complete() error {
	o.Dir = cmp.Or(o.Dir, ".sandbox")
	if o.Cache == "" {
		root, err := moduleRoot()
		if err != nil {
			return err
		}
		o.Cache = filepath.Join(root, ".cache", "sandbox")
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	for _, path := range []*string{&o.Dir, &o.Cache} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	for _, spec := range o.Hosts {
		if err := spec.validate(); err != nil {
			return err
		}
	}
	return nil
}

// moduleRoot returns the folder of the go.mod at or above the working directory, or else that.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "go.mod")) {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return start, nil
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
