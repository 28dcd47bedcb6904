package access

import (
	"net/netip"
	"testing"
	"time"
)

func TestLimiter(t *testing.T) {
	l := newLimiter(3, time.Second)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for l.slotOf(a) == l.slotOf(b) {
		b = b.Next()
	}
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		addr netip.Addr
		pass time.Duration
		wait time.Duration
	}{
		{a, 0, 0}, {a, 0, 0}, {a, 0, 0}, {a, 0, time.Second}, {b, 0, 0}, {a, time.Second / 2, time.Second / 2},
		{a, time.Second / 2, 0}, {a, 0, time.Second}, {a, time.Hour, 0}, {a, 0, 0}, {a, 0, 0}, {a, 0, time.Second},
	} {
		now = now.Add(step.pass)
		if ok, wait := l.allow(step.addr, now); ok != (step.wait == 0) || wait > 0 != !ok || !ok && wait != step.wait {
			t.Errorf("step %d: %v, wait %s; want %s", i, ok, wait, step.wait)
		}
	}
}
