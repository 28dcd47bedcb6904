package apt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Installed returns the version of each package that is installed, and omits the others.
func Installed(ctx context.Context, h host.Host, packages ...string) (map[string]string, error) {
	script := `command -v dpkg-query >/dev/null || { echo "no dpkg" >&2; exit 3; }
dpkg-query -W -f '${Package} ${db:Status-Status} ${Version}\n' ` + host.Words(packages...) + ` 2>/dev/null || :`
	out, err := h.Run(ctx, host.Command{Script: script, Look: true})
	if err != nil {
		return nil, fmt.Errorf("ask for packages: %w", err)
	}
	return parseInstalled(out.Stdout), nil
}

func parseInstalled(text string) map[string]string {
	versions := map[string]string{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "installed" {
			versions[f[0]] = f[2]
		}
	}
	return versions
}

// Install is the step that installs the missing packages with their dependencies, but without those
// merely recommended. Packages that are present keep their version.
func (s *System) Install(name string, packages ...string) step.Wish {
	return step.NewWish(name, func(ctx context.Context, h host.Host) (*step.Change, error) {
		there, err := Installed(ctx, h, packages...)
		if err != nil {
			return nil, err
		}
		missing := slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return there[p] != "" })
		if len(missing) == 0 {
			return nil, nil
		}
		summary := "install " + strings.Join(missing, ", ")
		if s.options.Bundle != nil {
			summary += " from " + s.options.Bundle.Name()
		}
		return &step.Change{Summary: summary, Apply: func(ctx context.Context) error { return s.install(ctx, h, missing) }}, nil
	})
}

func (s *System) install(ctx context.Context, h host.Host, packages []string) error {
	if s.options.Bundle != nil {
		return s.fromBundle(ctx, h, packages)
	}
	if err := s.update(ctx, h); err != nil {
		return err
	}
	step.Say(ctx, "apt: installing %s", strings.Join(packages, ", "))
	_, err := s.aptGet(ctx, h, append([]string{"install", "--no-install-recommends", "--no-remove", "--"}, packages...)...)
	var f *fault
	if errors.As(err, &f) && s.stale != nil {
		if lists.MatchString(f.what) {
			f.hint = hintOf(s.stale.Error(), f.hint)
		}
		f.what += "; apt-get update said before: " + s.stale.Error()
	}
	return err
}

// Hold is the step that keeps packages at their version until somebody runs `apt-mark unhold`, so
// that a database is never upgraded by accident. A name may contain *, to match installed packages.
func Hold(name string, packages ...string) step.Wish {
	return step.NewWish(name, func(ctx context.Context, h host.Host) (*step.Change, error) {
		there, loose, err := notHeld(ctx, h, packages)
		if err != nil || there && len(loose) == 0 {
			return nil, err
		}
		names := loose
		if !there {
			names = packages
		}
		return &step.Change{Summary: "hold " + strings.Join(names, ", ") + " at the version that is installed", Apply: func(ctx context.Context) error {
			_, loose, err := notHeld(ctx, h, packages)
			if err != nil || len(loose) == 0 {
				return err
			}
			_, err = h.Run(ctx, host.Command{Script: "apt-mark hold " + host.Words(loose...), Root: true})
			return err
		}}, nil
	})
}

// notHeld returns the installed packages that are not held; there: some are installed.
func notHeld(ctx context.Context, h host.Host, packages []string) (there bool, loose []string, err error) {
	installed, err := Installed(ctx, h, packages...)
	if err != nil || len(installed) == 0 {
		return false, nil, err
	}
	out, err := h.Run(ctx, host.Command{Script: "apt-mark showhold", Look: true})
	if err != nil {
		return false, nil, err
	}
	held := strings.Fields(out.Stdout)
	for p := range installed {
		if !slices.Contains(held, p) {
			loose = append(loose, p)
		}
	}
	slices.Sort(loose)
	return true, loose, nil
}
