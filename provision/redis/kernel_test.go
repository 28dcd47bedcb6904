package redis

import (
	"testing"

	"github.com/cr-clawer/urifilter/provision/hosttest"
	"github.com/cr-clawer/urifilter/provision/step"
)

func TestSystemOvercommit(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "bookworm")
	steps := []step.Step{overcommit(), hugePages()}
	if changed := hosttest.Must(t, h, steps); len(changed) != 1 {
		t.Errorf("changed: %q", changed)
	}
	// Another file decides: ours is not written again.
	h.Sh(t, "rm /etc/sysctl.d/60-urifilter-redis.conf; echo 'vm.overcommit_memory=2' >/etc/sysctl.d/99-site.conf")
	if changed := hosttest.Must(t, h, steps); len(changed) != 0 {
		t.Errorf("changed: %q", changed)
	}
}
