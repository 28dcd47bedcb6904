package sandbox

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/sandbox/aptrepo"
)

// Repository is the package repository that a sandbox serves to its hosts.
type Repository struct {
	URL       string // "http://10.88.0.1"
	Suite     string
	Component string
	Package   string // its service has the same name
	KeyURL    string // the key that it is signed with, armored
	KeyFile   string // the same, on this machine
}

//go:embed aptrepo/serve/main.go
var serverSource []byte

// serverGroup is the control group of the server, beside those of the hosts.
func (s *Sandbox) serverGroup() string { return cgroupName(s.state.Index, 1) }

// serveRepository makes the repository and starts its server, unless that is running.
func (s *Sandbox) serveRepository(ctx context.Context, cache string) error {
	dir, binary, err := s.makeServer(ctx, cache)
	if err != nil {
		return err
	}
	said := filepath.Join(s.Dir, "server")
	if !groupRuns(s.serverGroup()) {
		if err := os.Remove(said); err != nil && !os.IsNotExist(err) {
			return err
		}
		s.changed.Store(true)
		if err := s.startServer(ctx, binary, dir, said); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(30 * time.Second); !exists(said); {
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(said + ".log")
			return fmt.Errorf("server of the package repository: not up after 30 s: %s", tail(string(text), 5))
		}
		if err := host.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	key, err := os.ReadFile(filepath.Join(dir, aptrepo.KeyName))
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(s.Dir, aptrepo.KeyName), key); err != nil {
		return err
	}
	s.state.Repository = dir
	if err := s.state.write(s.Dir); err != nil {
		return err
	}
	return s.readRepository()
}

// readRepository finds out where the server listens, and sets s.Repository.
func (s *Sandbox) readRepository() error {
	if s.state.Repository == "" {
		return nil
	}
	address, err := os.ReadFile(filepath.Join(s.Dir, "server"))
	if err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(s.state.Repository, "pool", aptrepo.Suite, "*.deb"))
	if err != nil {
		return err
	}
	if len(debs) != 1 {
		return fmt.Errorf("package repository %s: %d packages, want 1\nhint: sandbox:down, then sandbox:up", s.state.Repository, len(debs))
	}
	url := "http://" + strings.TrimSuffix(string(address), ":80")
	s.Repository = &Repository{
		URL: url, Suite: aptrepo.Suite, Component: aptrepo.Component, Package: aptrepo.Package,
		KeyURL: url + "/" + aptrepo.KeyName, KeyFile: filepath.Join(s.Dir, aptrepo.KeyName),
	}
	return nil
}

func (s *Sandbox) makeServer(ctx context.Context, cache string) (dir, binary string, err error) {
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", "", err
	}
	lock, err := lockFile(ctx, filepath.Join(cache, "repository.lock"))
	if err != nil {
		return "", "", err
	}
	defer lock.Close()
	ctx = holding(ctx, lock)
	if dir, err = aptrepo.Make(ctx, cache, s.out); err != nil {
		return "", "", err
	}
	binary = filepath.Join(cache, fmt.Sprintf("serve-%x", sha256.Sum256(serverSource))[:20])
	if exists(binary) {
		return dir, binary, nil
	}
	// Built from its text alone: the toolkit may run where this module's source is missing.
	work, err := os.MkdirTemp(cache, ".serve-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(work)
	source := filepath.Join(work, "main.go")
	if err := os.WriteFile(source, serverSource, 0o600); err != nil {
		return "", "", err
	}
	if err := run(ctx, "env", "GOFLAGS=", "CGO_ENABLED=0", "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-o", filepath.Join(work, "serve"), source); err != nil {
		return "", "", err
	}
	return dir, binary, os.Rename(filepath.Join(work, "serve"), binary)
}

func (s *Sandbox) startServer(ctx context.Context, binary, dir, said string) error {
	groups, err := cgroups(s.serverGroup())
	if err != nil {
		return err
	}
	log, err := os.Create(said + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := command(ctx, "setsid", "--fork", "/bin/sh", "-c", `
		set -eu
		for group in $1; do mkdir -p "$group"; echo $$ >"$group/cgroup.procs"; done
		exec 3<&- # as in boot.sh
		shift
		exec "$@"
	`, "sh", strings.Join(groups, " "), binary, "-dir", dir, "-listen", s.Gateway+":80", "-said", said)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, plainEnv()
	return runCommand(cmd)
}
