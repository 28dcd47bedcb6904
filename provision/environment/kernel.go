package environment

import (
	"context"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// overcommitFile is ours. 60: files of the administrator, by custom 90 and more, go after it.
const overcommitFile = "/etc/sysctl.d/60-urifilter-redis.conf"

const overcommitText = `# Written by the urifilter toolkit, which writes it anew when it differs.
# Redis forks to rewrite its append-only file. With the default the kernel refuses that
# when Redis has more than about half of the memory, though hardly any of it is copied;
# the file then grows without end.
vm.overcommit_memory = 1
`

// lookOvercommit prints the value, whether it may be set, and who else sets it.
const lookOvercommit = `cat /proc/sys/vm/overcommit_memory
[ -w /proc/sys/vm/overcommit_memory ] && ! grep -q ' /proc/sys ro[, ]' /proc/mounts && echo yes || echo no
grep -lsE '^[[:space:]]*-?vm[./]overcommit_memory[[:space:]]*=' /etc/sysctl.conf /etc/sysctl.d/*.conf /run/sysctl.d/*.conf /usr/local/lib/sysctl.d/*.conf /usr/lib/sysctl.d/*.conf | grep -vx ` + overcommitFile + `
:`

// Overcommit lets Redis fork, on a host with the role redis. Where an administrator has
// set it to something else, that stays and is told.
func Overcommit() step.Wish {
	return step.NewWish("redis: vm.overcommit_memory", func(ctx context.Context, h host.Host) (*step.Change, error) {
		out, err := h.Run(ctx, host.Command{Script: lookOvercommit, Root: true})
		if err != nil {
			return nil, err
		}
		lines := strings.Split(strings.TrimSpace(out.Stdout), "\n")
		if len(lines) < 2 {
			return nil, fmt.Errorf("vm.overcommit_memory: the host says %q", out.Stdout)
		}
		value, writable, foreign := lines[0], lines[1] == "yes", lines[2:]
		if len(foreign) > 0 {
			if value != "1" {
				step.Warn(ctx, "vm.overcommit_memory is %s, which %s sets: Redis may be unable to rewrite its append-only file; 1 is what it wants", value, strings.Join(foreign, " and "))
			}
			return nil, nil
		}
		wish := host.File{Path: overcommitFile, Content: overcommitText}
		old, _, err := host.ReadFile(ctx, h, wish.Path)
		if err != nil {
			return nil, err
		}
		set := value != "1" && writable
		if value != "1" && !writable {
			step.Warn(ctx, "vm.overcommit_memory is %s, and this container may not set it: set it to 1 on the machine that it runs on", value)
		}
		if wish.Same(old) && !set {
			return nil, nil
		}
		return &step.Change{
			Summary: "set vm.overcommit_memory to 1",
			Diff:    diff.Unified(wish.Path, old.Content, wish.Content),
			Apply: func(ctx context.Context) error {
				if err := host.WriteFile(ctx, h, wish); err != nil || !set {
					return err
				}
				_, err := h.Run(ctx, host.Command{Script: "echo 1 >/proc/sys/vm/overcommit_memory", Root: true})
				return err
			},
		}, nil
	})
}

// HugePages warns where the kernel gives no huge pages: the bit-maps ask for them. It
// changes nothing, for it is a matter of the whole machine.
func HugePages() step.Proof {
	return step.NewProof("environment: huge pages", func(ctx context.Context, h host.Host) error {
		out, err := h.Run(ctx, host.Command{Script: "cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || :"})
		if err == nil && strings.Contains(out.Stdout, "[never]") {
			step.Warn(ctx, "transparent huge pages are off: filters of many million items answer more slowly; `echo madvise >/sys/kernel/mm/transparent_hugepage/enabled` gives them to programs that ask for them")
		}
		return err
	})
}

// RedisHugePages warns where every program gets huge pages: Redis then stalls when it forks.
func RedisHugePages() step.Proof {
	return step.NewProof("redis: huge pages", func(ctx context.Context, h host.Host) error {
		out, err := h.Run(ctx, host.Command{Script: "cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || :"})
		if err == nil && strings.Contains(out.Stdout, "[always]") {
			step.Warn(ctx, "transparent huge pages are on for every program, which makes Redis slow while it forks; `echo madvise >/sys/kernel/mm/transparent_hugepage/enabled` gives them only to programs that ask for them")
		}
		return err
	})
}

// lookClock tells whether somebody keeps the clock.
const lookClock = `systemd-detect-virt --container --quiet && { echo container; exit; }
[ "$(timedatectl show --property=NTPSynchronized --value 2>/dev/null)" = yes ] && { echo synchronized; exit; }
for u in systemd-timesyncd chrony chronyd ntp ntpsec ntpd openntpd; do
	systemctl is-active --quiet $u.service && { echo $u; exit; }
done
echo nobody`

// Clock warns where nobody keeps the clock right: timing filters, leases in the archive
// and the monthly writeback go by it.
func Clock() step.Proof {
	return step.NewProof("environment: clock", func(ctx context.Context, h host.Host) error {
		out, err := h.Run(ctx, host.Command{Script: lookClock})
		if err == nil && strings.TrimSpace(out.Stdout) == "nobody" {
			step.Warn(ctx, "the clock is not synchronized; `apt-get install systemd-timesyncd`, or chrony, does that")
		}
		return err
	})
}
