// Package apt installs packages on Debian and Ubuntu hosts: from the host's own repositories, from
// an added one, or from a bundle of files where there is no network. It neither removes nor
// upgrades packages that others installed, and never touches a lock that is held.
package apt

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Options are common to all installations on a host.
type Options struct {
	// Proxy is used by apt for this run alone: "http://proxy:3142". "": as the host is set up.
	Proxy string
	// Wait is how long others may hold apt's locks. 0: 5 minutes.
	Wait time.Duration
	// Bundle is the source of packages where there is no network; nil: repositories.
	Bundle *Bundle
	// KeepLists does not refresh the package lists of the host.
	KeepLists bool
}

// System is the packages of one host during one run. It is not safe for concurrent use, as the
// steps of a host run one after the other.
type System struct {
	options Options
	booted  bool  // cloud-init has been waited for
	fresh   bool  // the lists have been refreshed
	stale   error // why they could not be refreshed
}

// New returns the System of one host for one run.
func New(o Options) *System {
	o.Wait = cmp.Or(o.Wait, usualWait)
	return &System{options: o}
}

const (
	// usualWait is how long others may hold apt's locks, unless Options say otherwise.
	usualWait = 5 * time.Minute
	// pause is how long to wait between two tries for a lock.
	pause = 3 * time.Second
	// lockTimeout is how long apt itself waits for a lock before we report its holder.
	lockTimeout = 10
)

// detached runs a command so that it survives the loss of the connection: a dpkg that is killed
// midway leaves a host on which nothing can be installed. The proxy, which may hold a password, is
// the first line of the input. The log's file has no name, so nothing remains of it however this
// ends.
const detached = `IFS= read -r proxy
[ -z "$proxy" ] || export http_proxy="$proxy" https_proxy="$proxy"
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 NEEDRESTART_MODE=l APT_LISTCHANGES_FRONTEND=none UCF_FORCE_CONFFOLD=1 LC_ALL=C
log=$(mktemp) || exit
exec 3>"$log" 4<"$log"
rm -f "$log"
setsid --wait sh -c 'trap "" HUP INT TERM PIPE; exec "$@"' sh %s </dev/null >&3 2>&1 3>&- 4<&-
code=$?
cat <&4
exit $code`

// command returns an apt-get command line that asks nothing, keeps changed settings files, and
// removes nothing.
func command(args ...string) []string {
	words := []string{
		"apt-get", "-y", "-q", fmt.Sprintf("-oDPkg::Lock::Timeout=%d", lockTimeout), "-oDpkg::Use-Pty=0", "-oAcquire::Retries=3",
		"-oDpkg::Options::=--force-confdef", "-oDpkg::Options::=--force-confold",
	}
	return append(words, args...)
}

// aptGet runs apt-get to its end, waiting for locks. Its error says what to do.
func (s *System) aptGet(ctx context.Context, h host.Host, args ...string) (string, error) {
	if err := s.boot(ctx, h); err != nil {
		return "", err
	}
	script := fmt.Sprintf(detached, host.Words(command(args...)...))
	return whenFree(ctx, "apt-get", s.options.Wait, func() (host.Output, error) {
		return h.Run(ctx, host.Command{
			Script: script, Root: true, Stdin: strings.NewReader(s.options.Proxy + "\n"), OK: []int{1, 2, 100},
		})
	})
}

// whenFree runs a program of apt until no other one holds the lock that it wants, for so long at most.
func whenFree(ctx context.Context, program string, wait time.Duration, run func() (host.Output, error)) (string, error) {
	begun := time.Now()
	for {
		// The script is not shown: apt's own message says more.
		out, err := run()
		if err != nil {
			return "", fmt.Errorf("%s: %w", program, err)
		}
		text := out.Stdout + out.Stderr
		holder, locked := lockHolder(text)
		waited := time.Since(begun)
		switch {
		case out.Code == 0:
			return text, nil
		case !locked:
			return text, explain(program, text)
		case waited > wait:
			return text, fmt.Errorf("%s: %s has held the lock for %s\nhint: let it end, or see what it does; then run the same command again", program, holder, waited.Round(time.Second))
		}
		step.Say(ctx, "apt: waiting for %s, which holds the lock, %s of %s", holder, waited.Round(time.Second), wait)
		if err := host.Sleep(ctx, pause); err != nil {
			return text, err
		}
	}
}

var (
	lockLine   = regexp.MustCompile(`(?m)^(?:E: (?:Could not get lock |Unable to acquire the dpkg |Unable to lock )|dpkg: error: .* (?:is|was) locked by another process)`)
	lockOwner  = regexp.MustCompile(`(?:held by process|locked by another process with pid) (\d+)(?: \(([^)]*)\))?`)
	noRight    = regexp.MustCompile(`\(13: Permission denied\)|are you root`)
	errorLines = regexp.MustCompile(`(?m)^E: (.*)$`)
	warnLines  = regexp.MustCompile(`(?m)^(?:E: |W: |Err:\d+ )(.*)$`)
	// The lines among warnLines that give a reason: the others name an address, or come at the end.
	whyLines = regexp.MustCompile(`(?m)^[EW]: (.*)$`)
	noWhy    = regexp.MustCompile(`Some index files failed to download`)
)

// lockHolder returns the holder of the lock that apt-get wants, if that is why it failed.
func lockHolder(text string) (string, bool) {
	if !lockLine.MatchString(text) || noRight.MatchString(text) {
		return "", false
	}
	m := lockOwner.FindStringSubmatch(text)
	switch {
	case m == nil:
		return "another program", true
	case m[2] == "":
		return "process " + m[1], true
	}
	return fmt.Sprintf("%s (process %s)", m[2], m[1]), true
}

// boot waits for the first boot of a cloud host, which installs packages itself.
func (s *System) boot(ctx context.Context, h host.Host) error {
	if s.booted {
		return nil
	}
	const there = `command -v cloud-init >/dev/null 2>&1 && [ -d /run/cloud-init ] && [ ! -e /run/cloud-init/result.json ]`
	out, err := h.Run(ctx, host.Command{Script: there, OK: []int{1, 127}, Look: true})
	if err != nil {
		return fmt.Errorf("cloud-init: %w", err)
	}
	if out.Code == 0 {
		step.Say(ctx, "apt: waiting for cloud-init, %s at most", s.options.Wait)
		script := fmt.Sprintf("timeout %d cloud-init status --wait >/dev/null 2>&1", int(s.options.Wait.Seconds()))
		out, err := h.Run(ctx, host.Command{Script: script, Root: true, OK: []int{1, 2, 124}, Watch: true})
		if err != nil {
			return fmt.Errorf("cloud-init: %w", err)
		}
		if out.Code != 0 {
			step.Warn(ctx, "cloud-init ended with an error (`cloud-init status --long` says why); going on")
		}
	}
	s.booted = true
	return nil
}

// update refreshes the lists, once per run. An unreachable repository is no failure yet: the
// packages may come from another one.
func (s *System) update(ctx context.Context, h host.Host) error {
	if s.fresh || s.options.KeepLists {
		return nil
	}
	step.Say(ctx, "apt: refreshing the lists of packages")
	text, err := s.aptGet(ctx, h, "update")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || warnLines.MatchString(text) {
		s.stale = complaints(text)
		step.Warn(ctx, "apt-get update: %v; using the lists that it has", s.stale)
	}
	s.fresh = true
	return nil
}

// complaints returns an error of the lines in which apt-get says what went wrong.
func complaints(text string) error {
	var lines []string
	for _, form := range []*regexp.Regexp{whyLines, warnLines} {
		for _, m := range form.FindAllStringSubmatch(text, -1) {
			if line := strings.TrimSpace(m[1]); !noWhy.MatchString(line) {
				lines = append(lines, line)
			}
		}
		if len(lines) > 0 {
			break
		}
	}
	if len(lines) == 0 {
		lines = []string{host.LastLine(text)}
	}
	return fmt.Errorf("%s", strings.Join(lines[:min(3, len(lines))], "; "))
}
