package access

import (
	"cmp"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// A caller may have RefusedBurst tokens refused, and then one every RefusedEvery, before it
	// gets 429: a caller with a mistake sees 401, and one that guesses tokens is told to stop.
	// Known tokens are always accepted: otherwise one caller could lock out all others that
	// share its address.
	RefusedBurst = 20
	RefusedEvery = 10 * time.Second
	// Of all refusals together LoggedBurst are logged, and then one every LoggedEvery, so that a
	// flood does not fill the disk.
	LoggedBurst = 50
	LoggedEvery = time.Second
)

// Reasons for refusing a token, in the log and in metrics.
const (
	refusedNone    = "no token"
	refusedScheme  = "no bearer token"
	refusedUnknown = "unknown token"
	refusedScope   = "scope lacks"
)

// refusals counts refusals, for the log, for metrics and to limit callers that keep trying.
type refusals struct {
	log     *slog.Logger
	counted *prometheus.CounterVec
	wrong   *limiter // unknown tokens, by address
	logged  *limiter // all refusals together

	untold atomic.Int64 // refusals not logged since the last logged one
}

func newRefusals(log *slog.Logger, registry prometheus.Registerer) *refusals {
	r := &refusals{
		log: log,
		counted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "refused_tokens_total",
			Help: "Calls that were refused for their token, by why: no token, no bearer token, unknown token, scope lacks.",
		}, []string{"reason"}),
		wrong:  newLimiter(RefusedBurst, RefusedEvery),
		logged: newLimiter(LoggedBurst, LoggedEvery),
	}
	for _, reason := range []string{refusedNone, refusedScheme, refusedUnknown, refusedScope} {
		r.counted.WithLabelValues(reason) // so that the first refusal shows as a step, not as a new series
	}
	registry.MustRegister(r.counted)
	return r
}

// refuse logs a call whose token, or the lack of one, is refused, and returns err. The log has
// the name of the token, never its secret, and the address of the connection, which may be a
// proxy's.
func (g *Guard) refuse(c Call, name string, err error, reason string) error {
	r := g.refusals
	r.counted.WithLabelValues(reason).Inc()
	if ok, _ := r.logged.allow(netip.Addr{}, time.Now()); !ok {
		r.untold.Add(1)
		return err
	}
	args := []any{"reason", reason, "token", cmp.Or(name, "-"), "scope", c.Scope, "remote", c.Request.RemoteAddr, "method", c.Request.Method, "path", c.Path}
	if n := r.untold.Swap(0); n > 0 {
		args = append(args, "not_logged_before", n)
	}
	r.log.Warn("call refused", args...)
	return err
}
