package chores

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// need is something other than Go that tests use.
type need struct {
	packages string   // of Debian, blank-separated
	probe    []string // a command that succeeds if it is installed
	why      string
	race     bool // the race detector does not build without it
}

// pythonPackages are the packages that all tests of the Python client use.
const pythonPackages = "python3-scrapy python3-setuptools python3-wheel python3-venv"

func needs() []need {
	return []need{
		{"gcc libc6-dev", []string{"gcc", "-E", "-x", "c", "-include", "stdlib.h", os.DevNull, "-o", os.DevNull}, "the race detector, which needs cgo", true},
		{"redis-server redis-tools", []string{"redis-server", "--version"}, "the tests of the Redis store, on real servers", false},
		{"mariadb-server-core", []string{"mariadbd", "--version"}, "the tests of filters in MariaDB, on real servers", false},
		{"strace", []string{"strace", "-V"}, "the tests of power cuts and failing disks under the downloader's store, and of MariaDB killed while it writes", false},
		{"nodejs npm", []string{"sh", "-c", "node --version && npm --version"}, "the tests of web archives (WARC), of openapi.yaml, of the status pages and of the port for Redis clients, with public programs from npm", false},
		{"python3-redis", []string{"sh", "-c", `for p in python3 /usr/bin/python3; do "$p" -c "import redis" && exit; done; exit 1`}, "the tests of the port for Redis clients, with redis-py", false},
		{"prometheus", []string{"promtool", "--version"}, "the tests of the alert rules and of the dashboard, on a real Prometheus", false},
		{"bash-completion zsh fish groff-base", []string{"sh", "-c", "[ -r /usr/share/bash-completion/bash_completion ] && zsh --version && fish --version && groff --version"}, "the tests of completion and manual pages, in real shells", false},
		{"rpm rpm2cpio cpio", []string{"sh", "-c", "rpm --version && command -v rpm2cpio cpio"}, "the test that packages for RPM are as those for Debian", false},
		{"graphviz", []string{"dot", "-V"}, "the test that Graphviz reads the graph of a crawl", false},
		{"chromium-headless-shell", []string{"sh", "-c", "command -v chromium-headless-shell"}, "the tests of downloads with a browser, and of the status pages", false},
		{"python3", []string{"python3", "-I", "-S", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"}, "the tests of job code in Python", false},
		{"qemu-user", []string{"qemu-aarch64", "-version"}, "the tests of the assembly for other processors", false},
		{pythonPackages, append([]string{"sh", "-c", `for p in "$@"; do "$p" -c "$0" && exit; done; exit 1`, pythonAll}, pythons()...), "the tests of the Python client and of Scrapy", false},
		{"systemd-container mmdebstrap nftables iproute2 openssh-client gnupg", []string{"sh", "-c", "for p in systemd-nspawn mmdebstrap nft ip ssh gpg; do command -v $p || exit 1; done"}, "the tests of the toolkit, on throw-away hosts", false},
		{"openssh-server openssh-client", []string{"sh", "-c", "[ -x /usr/sbin/sshd ] && command -v ssh-agent && command -v ssh-keygen"}, "the tests of SSH connections, with real servers", false},
	}
}

// host is what matters about this machine when something is missing.
type host struct{ debian, root bool }

func system() host {
	_, err := os.Stat("/etc/debian_version")
	return host{debian: err == nil, root: os.Geteuid() == 0}
}

// prepare provides what tests need, says what is missing, and reports whether the race
// detector is available.
func (r Repo) prepare(ctx context.Context) (race bool, err error) {
	missing, err := r.provide(ctx, needs(), system())
	if err == nil && len(missing) > 0 {
		err = r.without(missing)
	}
	return !slices.ContainsFunc(missing, func(n need) bool { return n.race }), err
}

// provide installs what is missing if it runs as root on Debian; otherwise it returns what is missing.
func (r Repo) provide(ctx context.Context, all []need, on host) (missing []need, err error) {
	for _, n := range all {
		if exec.CommandContext(ctx, n.probe[0], n.probe[1:]...).Run() != nil {
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 || !on.debian || !on.root {
		return missing, nil
	}
	install := []string{"install", "-y", "--no-install-recommends"}
	for _, n := range missing {
		fmt.Fprintf(r.Out, "installing %s: %s\n", n.packages, n.why)
		install = append(install, strings.Fields(n.packages)...)
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	if err := r.run(ctx, env, "apt-get", "update", "-q"); err != nil {
		return nil, err
	}
	return nil, r.run(ctx, env, "apt-get", install...)
}

// without says what cannot be done; if nothing may be skipped, it returns that as an error.
func (r Repo) without(missing []need) error {
	var lines []string
	for _, n := range missing {
		lines = append(lines, fmt.Sprintf("left out: %s; on Debian: apt-get install %s", n.why, n.packages))
	}
	text := strings.Join(lines, "\n")
	if r.NoSkip {
		return fmt.Errorf("%s", text)
	}
	fmt.Fprintln(r.Out, text)
	return nil
}
