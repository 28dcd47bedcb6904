package http

import (
	"cmp"
	"net/http"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// The audit log has a line for every call that changes filters or copies them, whatever its
// outcome. Package access logs the calls that it refuses. A line has the token's name, never
// the token, and the address of the connection, which may be a proxy's.

const maxLoggedName = 64 // bytes of a name in a path, which may have any value

// waits records calls that are retried until another copy of a filter is done: the log has one
// line when such a wait begins, and one when it ends.
type waits struct {
	mu sync.Mutex
	of map[wait]*waited
}

type wait struct{ action, filter, who string }

type waited struct {
	last  time.Time
	times int
}

// waitOver is the time without a retry after which a caller has given up.
const waitOver = time.Minute

// note records a call. It returns how often the call was refused before, and whether to log it.
func (w *waits) note(of wait, held bool, now time.Time) (before int, log bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.of[of]
	if was != nil && now.Sub(was.last) > waitOver {
		delete(w.of, of)
		was = nil
	}
	switch {
	case held && was != nil:
		was.last, was.times = now, was.times+1
		return was.times, false
	case held:
		if w.of == nil {
			w.of = map[wait]*waited{}
		}
		w.of[of] = &waited{now, 1}
	case was != nil:
		delete(w.of, of)
		return was.times, true
	}
	return 0, true
}

// audit logs a call that was admitted and acts on filters.
func (c *call) audit() {
	outcome := "done"
	switch {
	case c.status == statusClientGone:
		outcome = "client gone"
	case c.status == statusCut || c.status >= 500:
		outcome = "failed"
	case c.status >= 400:
		outcome = "refused"
	case c.route.actions[c.method()].audit == auditCreate && c.status == http.StatusOK:
		outcome = "unchanged"
	}
	before, log := c.s.waits.note(wait{c.acted, c.name, c.who}, c.code == problem.LeaseHeld, time.Now())
	if !log {
		return
	}
	args := []any{
		"action", c.acted, "filter", c.name[:min(len(c.name), maxLoggedName)], "token", cmp.Or(c.who, "-"), "remote", c.r.RemoteAddr,
		"outcome", outcome, "status", c.status,
	}
	if c.code != "" {
		args = append(args, "error_code", c.code)
	}
	if before > 0 {
		args = append(args, "refused_before", before)
	}
	c.s.log.Info("admin action", args...)
}
