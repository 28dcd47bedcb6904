package host

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Facts describe a host's machine and system.
type Facts struct {
	// Arch is the GOARCH, amd64 or arm64; for others the output of uname.
	Arch string
	// OS, Version, Codename and Name are of os-release: "debian", "12", "bookworm",
	// "Debian GNU/Linux 12 (bookworm)". Version and Codename may be "".
	OS, Version, Codename, Name string
	// CPU are the flags of the first processor.
	CPU []string
	// Systemd is the version of the running systemd, 0 if PID 1 is another program.
	Systemd int
	// Container is the kind of container ("lxc", "systemd-nspawn"), "" for none.
	Container string
}

// Has reports whether the processor has a feature, named as in /proc/cpuinfo.
func (f Facts) Has(flag string) bool { return slices.Contains(f.CPU, flag) }

const factsScript = `echo "arch=$(uname -m)"
(. /etc/os-release 2>/dev/null || . /usr/lib/os-release 2>/dev/null
echo "os=${ID:-}"; echo "version=${VERSION_ID:-}"; echo "codename=${VERSION_CODENAME:-}"; echo "name=${PRETTY_NAME:-}")
echo "cpu=$(sed -n -e '/^flags[[:space:]]*:/{s/^[^:]*://p;q;}' -e '/^Features[[:space:]]*:/{s/^[^:]*://p;q;}' /proc/cpuinfo)"
[ -d /run/systemd/system ] && echo "systemd=$(systemctl --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')"
echo "container=$(systemd-detect-virt --container 2>/dev/null)"`

// FactsOf asks a host for its facts.
func FactsOf(ctx context.Context, h Host) (Facts, error) {
	out, err := h.Run(ctx, Command{Script: factsScript, Look: true})
	if err != nil {
		return Facts{}, fmt.Errorf("read the host's facts: %w", err)
	}
	return parseFacts(out.Stdout), nil
}

// Pairs reads lines of a key and a value, which a separator keeps apart; others are left out. The last of a key counts.
func Pairs(text, separator string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), separator); ok {
			m[key] = strings.TrimSpace(value)
		}
	}
	return m
}

func parseFacts(text string) Facts {
	m := Pairs(text, "=")
	f := Facts{
		Arch: m["arch"], OS: m["os"], Version: m["version"], Codename: m["codename"], Name: m["name"],
		CPU: strings.Fields(m["cpu"]), Container: m["container"],
	}
	if f.Container == "none" {
		f.Container = ""
	}
	switch f.Arch {
	case "x86_64":
		f.Arch = "amd64"
	case "aarch64":
		f.Arch = "arm64"
	}
	f.Systemd, _ = strconv.Atoi(m["systemd"]) // one that says nothing is none
	return f
}
