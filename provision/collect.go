package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/schedule"
	"github.com/cr-clawer/urifilter/provision/step"
)

// CollectBundle makes a folder with all that a site without a network needs: the packages
// of the inventory's roles, downloaded by the hosts chosen, which have a network, for
// hosts of the same release; and the program. The hosts stay as they are.
func (t *Toolkit) CollectBundle(ctx context.Context, dir string) error {
	r, err := t.newRun()
	if err != nil {
		return fleet.Usage(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var failed []error
	for _, h := range t.hosts {
		step.Say(t.told(ctx, h), "collecting")
		if err := t.collectFrom(t.told(ctx, h), r, h, dir); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", h.Name, err))
			fmt.Fprintf(t.o.Stderr, "%s: %s\n", h.Name, t.masker.Mask(err.Error()))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := t.collectProgram(ctx, dir); err != nil {
		failed = append(failed, err)
		fmt.Fprintln(t.o.Stderr, err)
	}
	if len(failed) == 0 {
		named := t.fromInventory(dir)
		fmt.Fprintf(t.o.Stdout, "%s has all of it. In the inventory of the site without a network, where paths begin at the inventory's folder:\n\npackages:\n  bundle: %q\nrelease:\n  binary: %q\n",
			dir, named, path.Join(named, "urifilter-linux-{arch}"))
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

func (t *Toolkit) collectFrom(ctx context.Context, r *run, h inventory.Host, dir string) (err error) {
	conn, closer, err := t.connect(h)(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	var packages []string
	var repositories []apt.Repository
	if r.redis != nil {
		packages = append(packages, r.redis.Package())
	}
	if t.inventory.Schedule.Kind == schedule.Crontab {
		packages = append(packages, "cron")
	}
	if r.mongo != nil {
		facts, err := host.FactsOf(ctx, conn)
		if err != nil {
			return err
		}
		more, from, err := r.mongo.Sources(ctx, facts)
		if err != nil {
			return err
		}
		packages, repositories = append(packages, more...), from
	}
	if len(packages) == 0 {
		return nil
	}
	return apt.Collect(ctx, conn, dir, repositories, packages...)
}

// collectProgram puts the program for each processor into the folder.
func (t *Toolkit) collectProgram(ctx context.Context, dir string) error {
	source := t.o.Build
	if given := t.o.Binary; given != "" {
		source = release.Ready(given)
	}
	if source == nil {
		return errors.New("no program is given\nhint: -binary=PATH")
	}
	for _, arch := range []string{"amd64", "arm64"} {
		path, err := source(ctx, arch)
		if err != nil {
			return err
		}
		program, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "urifilter-linux-"+arch), program, 0o755); err != nil {
			return err
		}
	}
	return apt.WriteSums(dir)
}
