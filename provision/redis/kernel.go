package redis

import (
	"context"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// overcommitFile is ours. 60: the administrator's files, by custom 90 and more, come after it.
const overcommitFile = "/etc/sysctl.d/60-urifilter-redis.conf"

const overcommitText = "# " + host.Written + `, which rewrites it when it differs.
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

// overcommit lets Redis fork. If an administrator has set it to something else, that
// stays and is reported.
func overcommit() step.Wish {
	return step.NewWish("redis: vm.overcommit_memory", func(ctx context.Context, h host.Host) (*step.Change, error) {
		out, err := h.Run(ctx, host.Command{Script: lookOvercommit, Root: true, Look: true})
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
				return host.AsRoot(ctx, h, "echo 1 >/proc/sys/vm/overcommit_memory")
			},
		}, nil
	})
}

// hugePages warns if every program gets huge pages: Redis then stalls when it forks.
func hugePages() step.Proof {
	return step.NewProof("redis: huge pages", func(ctx context.Context, h host.Host) error {
		out, err := h.Run(ctx, host.Command{Script: "cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || :", Look: true})
		if err == nil && strings.Contains(out.Stdout, "[always]") {
			step.Warn(ctx, "transparent huge pages are on for every program, which makes Redis slow while it forks; `echo madvise >/sys/kernel/mm/transparent_hugepage/enabled` gives them only to programs that ask for them")
		}
		return err
	})
}
