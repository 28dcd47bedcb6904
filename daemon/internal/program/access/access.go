// Package access decides which calls are admitted: those whose token has the scope that they
// need, or, if no tokens are required, those that do not come from a web page of another site.
// Refusals are logged and counted; an address that sends many wrong tokens is told to stop, and
// a token gets no more than half of the calls that can run at once.
//
// It reads no bodies and stores no tokens: the caller's Authenticate knows those.
package access

import (
	"hash/maphash"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/program/caller"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// Options say who may call.
type Options struct {
	// Program is the name of the program, sent to callers as the realm.
	Program string
	// Includes lists the scopes that a scope includes besides itself.
	Includes map[string][]string
	// Authenticate finds the token to which secret belongs, in constant time.
	// Nil: calls need no token.
	Authenticate func(secret string) (name string, scopes []string, ok bool)
	// AllowedHosts are names, besides localhost and loopback addresses, that calls without
	// tokens may have in Host and Origin.
	AllowedHosts []string
	// Connections is how many the program may have open: calls of one token that run at once may
	// be half as many. 0: no limit.
	Connections int
	// Log gets a line for each call that is refused for its token. Required.
	Log *slog.Logger
}

// Guard decides. It is safe for concurrent use. Each of its errors is a [problemdetail.Error].
type Guard struct {
	realm        string
	includes     map[string][]string
	authenticate func(secret string) (name string, scopes []string, ok bool)
	allowedHosts []string
	refusals     *refusals
	running      running
}

// New makes a Guard and registers its metric, refused_tokens_total.
func New(o Options, registry prometheus.Registerer) *Guard {
	return &Guard{
		realm: `Bearer realm="` + o.Program + `"`, includes: o.Includes, authenticate: o.Authenticate, allowedHosts: o.AllowedHosts,
		refusals: newRefusals(o.Log, registry), running: running{limit: (o.Connections + 1) / 2, of: map[string]int{}},
	}
}

// AsksTokens reports whether calls need a token.
func (g *Guard) AsksTokens() bool { return g.authenticate != nil }

// Call is a call that asks to be admitted.
type Call struct {
	Request *http.Request
	Path    string // as logged
	Scope   string // the scope that it needs
}

// credentials returns the value of the Authorization header; "" if there is none, or none that
// says anything. sentTwice: there are several, and a proxy might have looked at another one.
func credentials(r *http.Request) (value string, sentTwice bool) {
	for _, v := range r.Header["Authorization"] {
		if v = strings.TrimSpace(v); v != "" {
			value, sentTwice = v, value != ""
		}
		if sentTwice {
			break
		}
	}
	return value, sentTwice
}

// Anonymous reports whether a token is required and the request's header has none: whatever else
// it sends is a stranger's until a token in it is checked. Header then finds none, too.
func (g *Guard) Anonymous(r *http.Request) bool {
	value, _ := credentials(r)
	return g.AsksTokens() && value == ""
}

// Header admits a call by its Authorization header; present is false if there is none. It returns
// the name of the token even if the token lacks the scope.
func (g *Guard) Header(c Call) (name string, present bool, err error) {
	value, sentTwice := credentials(c.Request)
	scheme, secret, _ := strings.Cut(value, " ")
	switch {
	case value == "":
		return "", false, nil
	case sentTwice:
		return "", true, g.refuse(c, "", g.unauthorized("Authorization: is sent twice; want it once, with Bearer and a token", ""), refusedScheme)
	case !strings.EqualFold(scheme, "Bearer"):
		return "", true, g.refuse(c, "", g.unauthorized("Authorization: want Bearer and a token", ""), refusedScheme)
	}
	name, err = g.Token(c, strings.TrimSpace(secret))
	return name, true, err
}

// Token admits a call by the secret that it sent, "" for none. It returns the name of the token
// even if the token lacks the scope.
func (g *Guard) Token(c Call, secret string) (name string, err error) {
	if secret == "" {
		return "", g.NoToken(c, "send Authorization: Bearer and a token")
	}
	name, scopes, ok := g.authenticate(secret)
	if !ok {
		return "", g.refuse(c, "", g.wrongToken(c), refusedUnknown)
	}
	if g.allows(scopes, c.Scope) {
		return name, nil
	}
	return name, g.refuse(c, name, &problemdetail.Error{
		Code:   problemdetail.Forbidden,
		Detail: "token " + name + " lacks the scope " + c.Scope,
		Header: [2]string{"WWW-Authenticate", g.realm + `, error="insufficient_scope", scope="` + c.Scope + `"`},
	}, refusedScope)
}

// May reports whether a secret is that of a token with the scope, for those who show what a caller may
// do. It refuses nothing, so it logs and counts nothing. If no tokens are required, everybody may.
func (g *Guard) May(secret, scope string) bool {
	if g.authenticate == nil {
		return true
	}
	_, scopes, ok := g.authenticate(secret)
	return ok && g.allows(scopes, scope)
}

// NoToken refuses a call without a token; detail says where to send the token.
func (g *Guard) NoToken(c Call, detail string) error {
	return g.refuse(c, "", g.Unauthorized(detail), refusedNone)
}

// Unauthorized returns the error for a call that cannot proceed without a token.
func (g *Guard) Unauthorized(detail string) error { return g.unauthorized(detail, "") }

func (g *Guard) unauthorized(detail, params string) error {
	return &problemdetail.Error{
		Code:   problemdetail.Unauthorized,
		Detail: detail,
		Header: [2]string{"WWW-Authenticate", g.realm + params},
	}
}

// wrongToken returns the error for an unknown token: 401, or 429 for a caller that keeps trying.
func (g *Guard) wrongToken(c Call) error {
	ok, wait := g.refusals.wrong.allow(caller.OfRemote(c.Request.RemoteAddr), time.Now())
	if ok {
		return g.unauthorized("the token is not known", `, error="invalid_token"`)
	}
	seconds := strconv.Itoa(int((wait + time.Second - 1) / time.Second))
	return &problemdetail.Error{
		Code:   problemdetail.TooManyRefusals,
		Detail: "the token is not known, and neither were others from this address: look at the caller's settings, or wait " + seconds + " s",
		Header: [2]string{"Retry-After", seconds},
	}
}

func (g *Guard) allows(scopes []string, scope string) bool {
	return slices.ContainsFunc(scopes, func(has string) bool { return has == scope || slices.Contains(g.includes[has], scope) })
}

// limiterSlots bounds the memory of a limiter. Addresses that hash to the same slot share it: one
// of them may then have to wait because of the other.
const limiterSlots = 1024

// limiter allows each address a burst, and then a steady rate (a leaky bucket for each). It is
// safe for concurrent use.
type limiter struct {
	burst int
	every time.Duration
	seed  maphash.Seed

	mu    sync.Mutex
	slots [limiterSlots]time.Time // when the bucket is empty again
}

func newLimiter(burst int, every time.Duration) *limiter {
	return &limiter{burst: burst, every: every, seed: maphash.MakeSeed()}
}

// allow counts one more event for an address, unless that is too many; wait is then how long the
// event would have to be delayed.
func (l *limiter) allow(addr netip.Addr, now time.Time) (ok bool, wait time.Duration) {
	slot := &l.slots[l.slotOf(addr)]
	l.mu.Lock()
	defer l.mu.Unlock()
	empty := *slot
	if empty.Before(now) {
		empty = now
	}
	empty = empty.Add(l.every)
	if wait = empty.Sub(now) - time.Duration(l.burst)*l.every; wait > 0 {
		return false, wait
	}
	*slot = empty
	return true, 0
}

func (l *limiter) slotOf(addr netip.Addr) uint64 {
	return maphash.Comparable(l.seed, addr) % limiterSlots
}

// running counts the calls of each token that run, so that one token cannot have all connections.
type running struct {
	limit int // of one token; 0: no limit

	mu sync.Mutex
	of map[string]int
}

// Enter counts a call of the token with this name, or refuses it if too many of that token run.
// Leave must follow unless it is refused.
func (g *Guard) Enter(name string) error {
	r := &g.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit > 0 && r.of[name] >= r.limit {
		return &problemdetail.Error{Code: problemdetail.Overloaded,
			Detail: "token " + name + " has " + strconv.Itoa(r.limit) + " calls that have not ended: half of limits.connections, all that one token gets"}
	}
	r.of[name]++
	return nil
}

// Leave ends what Enter began.
func (g *Guard) Leave(name string) {
	r := &g.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[name]--; r.of[name] == 0 {
		delete(r.of, name)
	}
}
