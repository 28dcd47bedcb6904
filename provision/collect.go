package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/atomicfile"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/step"
)

// CollectBundle makes a folder with everything that a site without a network needs: the packages of
// the inventory's roles, downloaded by the chosen hosts, which have a network, for hosts of the
// same release; and the program. The hosts are not changed.
func (t *Toolkit) CollectBundle(ctx context.Context, dir string) error {
	r, err := t.newRun(false)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var failed []error
	for _, h := range t.hosts {
		step.Say(t.withVoice(ctx, h), "collecting")
		if err := t.visit(t.withVoice(ctx, h), h, func(at host.Host) error { return r.site.Collect(t.withVoice(ctx, h), at, dir) }); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", h.Name, err))
			fmt.Fprintf(t.errs, "%s: %s\n", h.Name, t.masker.Mask(err.Error()))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := t.collectPrograms(ctx, dir); err != nil {
		failed = append(failed, err)
		fmt.Fprintln(t.errs, err)
	}
	if len(failed) == 0 {
		named := t.fromInventory(dir)
		fmt.Fprintf(t.out, "%s has all of it. In the inventory of the site without a network, where paths begin at the inventory's folder:\n\npackages:\n  bundle: %q\n", dir, named)
		for _, p := range t.allPrograms() {
			fmt.Fprintf(t.out, "%s:\n  binary: %q\n", cmp.Or(strings.TrimSuffix(prefixOf(t.inventory, p), "."), "release"), path.Join(named, p.File("{arch}")))
		}
	}
	return verdict(ctx, failed, len(t.hosts)+1)
}

// fromInventory returns a folder as configs/hosts.yaml names it: one below ours is at the same
// place in the site's clone.
func (t *Toolkit) fromInventory(dir string) string {
	whole, err := filepath.Abs(dir)
	root, err2 := filepath.Abs(t.o.Dir)
	if err != nil || err2 != nil {
		return dir
	}
	if rel, err := filepath.Rel(root, whole); err == nil && filepath.IsLocal(rel) {
		if rel, err = filepath.Rel(filepath.Join(root, "configs"), whole); err == nil {
			return filepath.ToSlash(rel)
		}
	}
	return filepath.ToSlash(whole)
}

// withVoice shows people the messages of steps, with the host's name.
func (t *Toolkit) withVoice(ctx context.Context, h inventory.Host) context.Context {
	return step.WithVoice(ctx, func(text string, _ bool) { fmt.Fprintf(t.errs, "%s: %s\n", h.Name, t.masker.Mask(text)) })
}

// allPrograms are the programs of all hosts of the inventory, chosen or not.
func (t *Toolkit) allPrograms() []program.Program {
	return slices.DeleteFunc(slices.Clone(t.o.Programs), func(p program.Program) bool {
		return len(inventory.Having(t.inventory.Hosts, p.Roles...)) == 0
	})
}

// prefixOf returns the prefix of the inventory's keys about a program.
func prefixOf(inv *inventory.Inventory, p program.Program) string {
	_, prefix := inv.Own(p.Section)
	return prefix
}

// collectPrograms copies the programs for each processor into the folder.
func (t *Toolkit) collectPrograms(ctx context.Context, dir string) error {
	if t.o.Binary == "" && t.o.Build == nil {
		return errors.New("no program is given\nhint: -binary=PATH")
	}
	builds := &rollout.Builds{Given: t.o.Binary}
	if err := builds.CheckGiven(t.allPrograms()); err != nil {
		return err
	}
	for _, p := range t.allPrograms() {
		source := release.Source(func(ctx context.Context, arch string) (release.Built, error) { return t.o.Build(ctx, p, arch) })
		if given := builds.GivenFor(p); given != "" {
			source = release.Ready(given)
		}
		for _, arch := range []string{"amd64", "arm64"} {
			built, err := source(ctx, arch)
			if err != nil {
				return err
			}
			binary, err := os.ReadFile(built.Path)
			if err != nil {
				return err
			}
			if err := atomicfile.Write(filepath.Join(dir, p.File(arch)), binary, 0o755); err != nil {
				return err
			}
		}
	}
	return apt.WriteSums(dir)
}
