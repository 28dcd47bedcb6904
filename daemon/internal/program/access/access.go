// Package access decides which calls are admitted: those whose token has the scope that they
// need, or, if no tokens are required, those that do not come from a web page of another site.
// Refusals are logged and counted; an address that sends many wrong tokens is told to stop.
//
// It reads no bodies and stores no tokens: the caller's Authenticate knows those.
package access

import (
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
}

// New makes a Guard and registers its metric, refused_tokens_total.
func New(o Options, registry prometheus.Registerer) *Guard {
	return &Guard{realm: `Bearer realm="` + o.Program + `"`, includes: o.Includes, authenticate: o.Authenticate, allowedHosts: o.AllowedHosts, refusals: newRefusals(o.Log, registry)}
}

// AsksTokens reports whether calls need a token.
func (g *Guard) AsksTokens() bool { return g.authenticate != nil }

// Call is a call that asks to be admitted.
type Call struct {
	Request *http.Request
	Path    string // as logged
	Scope   string // the scope that it needs
}

// Header admits a call by its Authorization header; present is false if there is none. It returns
// the name of the token even if the token lacks the scope.
func (g *Guard) Header(c Call) (name string, present bool, err error) {
	value := c.Request.Header.Get("Authorization")
	if value == "" {
		return "", false, nil
	}
	scheme, secret, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
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
	ok, wait := g.refusals.wrong.allow(addressOf(c.Request.RemoteAddr), time.Now())
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
