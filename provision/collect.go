package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/step"
)

// CollectBundle makes a folder with all that a site without a network needs: the packages
// of the inventory's roles, downloaded by the hosts chosen, which have a network, for
// hosts of the same release; and the program. The hosts stay as they are.
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
		step.Say(t.told(ctx, h), "collecting")
		if err := t.visit(t.told(ctx, h), h, func(at host.Host) error { return r.site.Collect(t.told(ctx, h), at, dir) }); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", h.Name, err))
			fmt.Fprintf(t.o.Stderr, "%s: %s\n", h.Name, t.masker.Mask(err.Error()))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := t.collectPrograms(ctx, dir); err != nil {
		failed = append(failed, err)
		fmt.Fprintln(t.o.Stderr, err)
	}
	if len(failed) == 0 {
		named := t.fromInventory(dir)
		fmt.Fprintf(t.o.Stdout, "%s has all of it. In the inventory of the site without a network, where paths begin at the inventory's folder:\n\npackages:\n  bundle: %q\nrelease:\n  binary: %q\n",
			dir, named, path.Join(named, t.program.File("{arch}")))
	}
	return verdict(ctx, failed, len(t.hosts)+1)
}

// fromInventory is a folder as configs/hosts.yaml names it: one below ours lies at the same
// place of the clone that the site has.
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

// told gives what steps say to people, with the host's name.
func (t *Toolkit) told(ctx context.Context, h inventory.Host) context.Context {
	return step.WithVoice(ctx, func(text string, _ bool) { fmt.Fprintf(t.o.Stderr, "%s: %s\n", h.Name, t.masker.Mask(text)) })
}

// collectPrograms puts the programs for each processor into the folder.
func (t *Toolkit) collectPrograms(ctx context.Context, dir string) error {
	if t.o.Binary == "" && t.o.Build == nil {
		return errors.New("no program is given\nhint: -binary=PATH")
	}
	for _, p := range t.o.Programs {
		source := func(ctx context.Context, arch string) (string, error) { return t.o.Build(ctx, p, arch) }
		if given := t.o.Binary; given != "" {
			source = release.Ready(given)
		}
		for _, arch := range []string{"amd64", "arm64"} {
			path, err := source(ctx, arch)
			if err != nil {
				return err
			}
			binary, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, p.File(arch)), binary, 0o755); err != nil {
				return err
			}
		}
	}
	return apt.WriteSums(dir)
}
