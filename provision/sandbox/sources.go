package sandbox

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
)

// sources are where this machine's apt gets Debian from: its mirror and proxy, which the
// hosts use too.
type sources struct {
	lines   []string // of a sources.list; none: Debian's own
	options []string // of apt.conf
}

func aptSources(ctx context.Context, release string) (sources, error) {
	osRelease, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return sources{}, err
	}
	targets, err := output(ctx, "apt-get", "indextargets", "--format",
		"$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)", "Created-By: Packages")
	if err != nil {
		return sources{}, err
	}
	config, err := output(ctx, "apt-config", "dump")
	if err != nil {
		return sources{}, err
	}
	return sources{lines: sourceLines(targets, ownCodename(string(osRelease)), release), options: aptOptions(config)}, nil
}

// ownCodename returns the release of Debian that the machine has, "" for another system.
func ownCodename(osRelease string) string {
	fields := map[string]string{}
	for line := range strings.Lines(osRelease) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[name] = strings.Trim(value, `"`)
	}
	if fields["ID"] != "debian" {
		return ""
	}
	return fields["VERSION_CODENAME"]
}

// sourceLines makes the lines of a sources.list for a release out of those that apt has for
// the machine's own release: a mirror that has the one has the other too. Anything that is
// signed with a key other than Debian's is not Debian.
func sourceLines(targets, own, release string) []string {
	var lines []string
	if own == "" {
		return nil
	}
	for line := range strings.Lines(targets) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 5 || f[0] != "Packages" || f[3] != "main" {
			continue
		}
		suite, isOwn := strings.CutPrefix(f[2], own)
		signed := f[4] == "" || strings.HasPrefix(f[4], "$(") || strings.Contains(f[4], "debian-archive")
		if !isOwn || !signed || !slices.Contains([]string{"", "-updates", "-security"}, suite) {
			continue
		}
		entry := "deb " + f[1] + " " + release + suite + " main"
		if !slices.Contains(lines, entry) {
			lines = append(lines, entry)
		}
	}
	return lines
}

// carriedOptions matches the settings of apt that it needs to reach the mirror.
var carriedOptions = regexp.MustCompile(`^Acquire::(https?(::[^ ]*)?::(Proxy|Verify-Peer|Verify-Host)[^ ]*|Check-Valid-Until|Check-Date|Retries|ForceIPv4|ForceIPv6) ".+";$`)

func aptOptions(config string) []string {
	var options []string
	for line := range strings.Lines(config) {
		if line = strings.TrimSpace(line); carriedOptions.MatchString(line) {
			options = append(options, strings.TrimSuffix(line, ";"))
		}
	}
	return options
}
