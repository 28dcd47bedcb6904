package configs

import "testing"

// Filters and bodies have parts of one limit.
func TestMemoryIsDivided(t *testing.T) {
	limits := func(memory, held Size) Limits {
		l := Default().Limits
		l.MemoryBytes, l.HeldBytes = memory, held
		return l
	}
	const m = uint64(MiB)
	for _, c := range []struct {
		l       Limits
		allowed uint64
		want    Memory
	}{
		{limits(0, 0), 0, Memory{Bodies: 256 * m}},
		{limits(0, 0), 24 << 30, Memory{Total: 18 << 30, Bodies: 256 * m, Filters: 18<<30 - 256*m, Work: 128 * m}},
		{limits(0, 0), 400 * m, Memory{Total: 300 * m, Bodies: 75 * m, Filters: 225 * m, Work: 37*m + m/2}},
		{limits(1<<30, 0), 400 * m, Memory{Total: 1 << 30, Bodies: 256 * m, Filters: 768 * m, Work: 128 * m}},
		{limits(1<<30, 512*MiB), 0, Memory{Total: 1 << 30, Bodies: 256 * m, Filters: 768 * m, Work: 128 * m}},
		{limits(1<<30, 128*MiB), 0, Memory{Total: 1 << 30, Bodies: 128 * m, Filters: 896 * m, Work: 64 * m}},
	} {
		if got := c.l.Memory(c.allowed); got != c.want {
			t.Errorf("%+v of %d: %+v, want %+v", c.l, c.allowed, got, c.want)
		}
	}
}
