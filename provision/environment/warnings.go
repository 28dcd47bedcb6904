package environment

import (
	"context"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// HugePages warns if the kernel provides no huge pages: the bit-maps request them. It changes
// nothing, because the setting affects the whole machine.
func HugePages() step.Proof {
	return step.NewProof("environment: huge pages", func(ctx context.Context, h host.Host) error {
		out, err := h.Run(ctx, host.Command{Script: "cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || :", Look: true})
		if err == nil && strings.Contains(out.Stdout, "[never]") {
			step.Warn(ctx, "transparent huge pages are off: filters of many million items answer more slowly; `echo madvise >/sys/kernel/mm/transparent_hugepage/enabled` gives them to programs that ask for them")
		}
		return err
	})
}

// lookClock finds out whether the clock is synchronized.
const lookClock = `systemd-detect-virt --container --quiet && { echo container; exit; }
[ "$(timedatectl show --property=NTPSynchronized --value 2>/dev/null)" = yes ] && { echo synchronized; exit; }
for u in systemd-timesyncd chrony chronyd ntp ntpsec ntpd openntpd; do
	systemctl is-active --quiet $u.service && { echo $u; exit; }
done
echo nobody`

// Clock warns if the clock is not synchronized: timing filters, leases in the archive and the
// monthly writeback depend on it.
func Clock() step.Proof {
	return step.NewProof("environment: clock", func(ctx context.Context, h host.Host) error {
		out, err := h.Run(ctx, host.Command{Script: lookClock, Look: true})
		if err == nil && strings.TrimSpace(out.Stdout) == "nobody" {
			step.Warn(ctx, "the clock is not synchronized; `apt-get install systemd-timesyncd`, or chrony, does that")
		}
		return err
	})
}
