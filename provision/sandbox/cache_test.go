package sandbox_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/sandbox"
)

// TestSystemCacheMissing kills a builder, and then has two builders fill an empty cache at once.
func TestSystemCacheMissing(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	cache, parent := t.TempDir(), t.TempDir()
	killed := filepath.Join(parent, "killed")
	t.Cleanup(func() { sandbox.Down(context.Background(), killed) })
	c := startCreator(t, killed, envCache+"="+cache)
	half := func() bool {
		found, err := filepath.Glob(cache + "/bookworm-*.new/usr/bin/dpkg")
		return err == nil && len(found) == 1
	}
	for !half() {
		select {
		case said := <-c.ended:
			t.Fatalf("the creator says %s", said)
		case <-time.After(20 * time.Millisecond):
		}
	}
	c.kill()
	var wg sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		wg.Go(func() {
			dir := filepath.Join(parent, name)
			s, err := sandbox.Up(t.Context(), sandbox.Options{Dir: dir, Cache: cache, Hosts: []sandbox.Spec{{Name: name}}})
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := s.Hosts[0].Exec(t.Context(), "hostname"); strings.TrimSpace(got) != name || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if err := s.Down(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	trees, err := filepath.Glob(cache + "/bookworm-*")
	if err != nil || len(trees) != 1 || strings.HasSuffix(trees[0], ".new") {
		t.Errorf("in the cache: %q, %v; want one tree", trees, err)
	}
}

// TestSystemInventory reads the inventory as the toolkit does, and logs in by ssh as people do.
func TestSystemInventory(t *testing.T) {
	t.Parallel()
	s := up(t, sandbox.Options{Hosts: twoHosts(), Repository: true})
	i, _, err := inventory.Open(inventory.Source{Path: s.Inventory, Dir: s.Dir, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if len(i.Hosts) != 2 || i.Hosts[0].Address != s.Hosts[0].Address || i.Hosts[1].User != "root" || len(i.Hosts[0].Roles) != 3 {
		t.Errorf("hosts %+v", i.Hosts)
	}
	if i.MongoDB.Repository.URL != s.Repository.URL || i.MongoDB.Flavor != "ferretdb" {
		t.Errorf("mongodb %+v", i.MongoDB)
	}
	for _, h := range i.Hosts {
		args, err := s.SSHArguments(h.Name, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := exec.Command("ssh", append(args, "hostname")...).Output(); strings.TrimSpace(string(got)) != h.Name || err != nil {
			t.Errorf("ssh: %q, %v; want %s", got, err, h.Name)
		}
	}
}
