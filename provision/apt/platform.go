package apt

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// platform is a release on which the toolkit can install packages.
type platform struct {
	os, version string
	tested      bool // by this repository's tests
}

func platforms() []platform {
	return []platform{
		{"debian", "11", false}, {"debian", "12", true}, {"debian", "13", true},
		{"ubuntu", "20.04", false}, {"ubuntu", "22.04", false}, {"ubuntu", "24.04", false},
	}
}

// Supported says why packages cannot be installed on a host, nil if they can.
func Supported(f host.Facts) error {
	ours := slices.ContainsFunc(platforms(), func(p platform) bool { return p.os == f.OS && p.version == f.Version })
	name := cmp.Or(f.Name, strings.TrimSpace(f.OS+" "+f.Version))
	switch {
	case !ours:
		return fmt.Errorf("system is %s: want %s\nhint: install Redis and MongoDB on such a host by other means, name them in the inventory's settings (redis.addrs, mongodb.uri), and give the host the role filter alone", name, supportedNames())
	case f.Arch != "amd64" && f.Arch != "arm64":
		return fmt.Errorf("processor is %s: want amd64 or arm64", f.Arch)
	case f.Systemd == 0:
		return fmt.Errorf("no systemd runs on it: want a host or container whose PID 1 is systemd")
	}
	return nil
}

func supportedNames() string {
	var debian, ubuntu, tested []string
	for _, p := range platforms() {
		if p.os == "debian" {
			debian = append(debian, p.version)
		} else {
			ubuntu = append(ubuntu, p.version)
		}
		if p.tested {
			tested = append(tested, strings.ToUpper(p.os[:1])+p.os[1:]+" "+p.version)
		}
	}
	return fmt.Sprintf("Debian %s or Ubuntu %s (tested: %s)", strings.Join(debian, ", "), strings.Join(ubuntu, ", "), strings.Join(tested, ", "))
}

// Platform is the name of a host's platform in bundles: "debian12-amd64".
func Platform(f host.Facts) string { return f.OS + f.Version + "-" + f.Arch }

// brokenOff lists half-installed packages, unless an installation is running.
const brokenOff = `for c in /proc/[0-9]*/comm; do
	case "$(cat "$c" 2>/dev/null)" in apt|apt-get|aptitude|dpkg|unattended-upgr|apt.systemd.dai) exit 0;; esac
done
dpkg --audit 2>&1
for f in /var/lib/dpkg/updates/*; do [ -e "$f" ] && echo "an update of the package database was broken off: $f"; done
:`

// auditLine matches a package in the list of dpkg --audit.
var auditLine = regexp.MustCompile(`(?m)^ (\S+)`)

// audited returns the packages in the findings, or else their first line.
func audited(text string) string {
	var names []string
	for _, m := range auditLine.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		first, _, _ := strings.Cut(text, "\n")
		return first
	}
	slices.Sort(names)
	return "not installed as a whole: " + strings.Join(slices.Compact(names), ", ")
}

// Ready is a preflight: packages can be installed on this platform, and no earlier installation was
// interrupted.
func Ready() step.Proof {
	return step.NewProof("packages: can be installed", func(ctx context.Context, h host.Host) error {
		facts, err := host.FactsOf(ctx, h)
		if err != nil {
			return err
		}
		if err := Supported(facts); err != nil {
			return err
		}
		out, err := h.Run(ctx, host.Command{Script: brokenOff, Root: true, Look: true})
		if err != nil {
			return fmt.Errorf("dpkg --audit: %w", err)
		}
		if text := strings.TrimSpace(out.Stdout); text != "" {
			return fmt.Errorf("dpkg: %s\nhint: `dpkg --audit` on the host says which packages; `dpkg --configure -a` as root completes an interrupted installation", audited(text))
		}
		return nil
	})
}
