package apt

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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
	if f, is := errors.AsType[*fault](err); is && s.stale != nil {
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
			_, err = whenFree(ctx, "apt-mark", usualWait, func() (host.Output, error) {
				return h.Run(ctx, host.Command{Script: "apt-mark hold " + host.Words(loose...), Root: true, OK: []int{100}})
			})
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

// known lists faults with a known next step.
var known = []struct {
	sign *regexp.Regexp
	hint string
}{
	{regexp.MustCompile(`dpkg was interrupted|dpkg --configure -a`), "an installation was broken off on the host; `dpkg --configure -a` as root ends it"},
	{regexp.MustCompile(`Unmet dependencies\. Try 'apt --fix-broken|apt --fix-broken install`), "packages of the host are half installed; see what `apt-get --fix-broken --simulate install` would do, then do it"},
	{regexp.MustCompile(`remove is disabled`), "the installation would remove packages of the host, which the toolkit never does; see what `apt-get --simulate install` says"},
	{regexp.MustCompile(`held broken packages|Held packages were changed`), "packages of the host are held or from another release; `apt-mark showhold` and `apt-get --simulate install` show which"},
	{regexp.MustCompile(`unmet dependencies`), "the repositories of the host do not fit together; `apt-get --simulate install` says what is missing"},
	{regexp.MustCompile(`Unable to locate package|has no installation candidate`), "no repository of the host has it; look at /etc/apt/sources.list and sources.list.d, or give a repository or a bundle in the inventory"},
	{regexp.MustCompile(`BADSIG|Message has been manipulated|Bad signature|BAD signature`), "what the repository gives is not what its owner has signed: a mirror or proxy on the way has changed it, or is being renewed right now; if it stays so in some minutes, ask who runs it, and install nothing from there"},
	{regexp.MustCompile(`NO_PUBKEY|EXPKEYSIG|is not signed|not available for verification`), "the key does not belong to that repository, or has run out; see the repository's key in the inventory"},
	{regexp.MustCompile(`does not have a Release file`), "the address, or the suite, of the repository is wrong"},
	{regexp.MustCompile(`Temporary failure resolving|Could not resolve|Could not connect|Unable to connect|Connection timed out|Connection failed`), "the host does not reach its repositories; give a proxy or a mirror in the inventory, or a bundle where there is no network"},
	{regexp.MustCompile(`No space left on device|You don't have enough free space`), "the disk of the host is full; `df -h /var` and `apt-get clean`"},
	{regexp.MustCompile(`Hash Sum mismatch|File has unexpected size`), "a mirror is changing or a proxy gives old files; run the same again in some minutes"},
	{regexp.MustCompile(`Permission denied|are you root`), "this needs root; see sudo in the inventory"},
	{regexp.MustCompile(`returned an error code|error processing package`), "a package's own script failed; `journalctl -xe` and /var/log/apt/term.log on the host say why"},
}

// fault is an error of apt-get, and the next step.
type fault struct{ what, hint string }

func (f *fault) Error() string { return f.what + "\nhint: " + f.hint }

// lists matches errors that may be due to old lists.
var lists = regexp.MustCompile(`Unable to locate package|has no installation candidate|unmet dependencies|Failed to fetch`)

// explain makes an error from the output of a program of apt.
func explain(program, text string) error {
	var lines []string
	for _, m := range errorLines.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.TrimSpace(m[1]))
	}
	if len(lines) == 0 {
		lines = []string{host.LastLine(text)}
	}
	return &fault{program + ": " + strings.Join(lines[:min(3, len(lines))], "; "), hintOf(text, "/var/log/apt/term.log on the host has the whole")}
}

// hintOf returns the known next step for the output of apt-get, or other.
func hintOf(text, other string) string {
	for _, k := range known {
		if k.sign.MatchString(text) {
			return k.hint
		}
	}
	return other
}
