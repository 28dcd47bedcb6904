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
	// is told 429: who has made a mistake sees 401, and who tries tokens in a row is told to
	// stop. Tokens that are known are answered at any time: else one caller could lock out all
	// others that share its address.
	RefusedBurst = 20
	RefusedEvery = 10 * time.Second
	// Of all refusals together LoggedBurst are logged, and then one every LoggedEvery: a flood
	// of them does not fill the disk.
	LoggedBurst = 50
	LoggedEvery = time.Second
)

// Why a token is refused, in the log and in metrics.
const (
	refusedNone    = "no token"
	refusedScheme  = "no bearer token"
	refusedUnknown = "unknown token"
	refusedScope   = "scope lacks"
)

// refusals count what was refused, for the log, for metrics and for those who go on.
type refusals struct {
	log     *slog.Logger
	counted *prometheus.CounterVec
	wrong   *limiter // tokens that are not known, by address
	logged  *limiter // of all together

	untold atomic.Int64 // refusals that were not logged since the last that was
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
		r.counted.WithLabelValues(reason) // so that the first refusal is a step, and no new series
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
	if ok, _ := r.logged.take(netip.Addr{}, time.Now()); !ok {
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
