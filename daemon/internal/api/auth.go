package api

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/problem"
)

// The scopes of tokens. admin includes all others, filter includes read.
const (
	scopeRead   = "read"
	scopeFilter = "filter"
	scopeAdmin  = "admin"
)

// Why a token is refused, in the log and in metrics.
const (
	refusedNone    = "no token"
	refusedScheme  = "no bearer token"
	refusedUnknown = "unknown token"
	refusedScope   = "scope lacks"
)

// authenticateHeader admits the call by its Authorization header; present is false
// where there is none.
func (c *call) authenticateHeader(scope string) (present bool, err error) {
	value := c.r.Header.Get("Authorization")
	if value == "" {
		return false, nil
	}
	scheme, secret, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return true, c.refuse(unauthorized("Authorization: want Bearer and a token", ""), refusedScheme, scope)
	}
	return true, c.admit(strings.TrimSpace(secret), scope)
}

// require admits a call that has its token in the header, or none.
func (c *call) require(scope string) error {
	if c.s.auth == nil {
		return nil
	}
	if present, err := c.authenticateHeader(scope); present || err != nil {
		return err
	}
	return c.admit("", scope)
}

// admit checks that secret is a token with the scope.
func (c *call) admit(secret, scope string) error {
	if secret == "" {
		return c.refuse(unauthorized("send Authorization: Bearer and a token", ""), refusedNone, scope)
	}
	name, scopes, ok := c.s.auth(secret)
	if !ok {
		return c.refuse(c.wrongToken(), refusedUnknown, scope)
	}
	c.who = name
	if allows(scopes, scope) {
		return nil
	}
	return c.refuse(&problem.Error{
		Code:   problem.Forbidden,
		Detail: "token " + name + " lacks the scope " + scope,
		Header: [2]string{"WWW-Authenticate", `Bearer realm="urifilter", error="insufficient_scope", scope="` + scope + `"`},
	}, refusedScope, scope)
}

func unauthorized(detail, params string) error {
	return &problem.Error{
		Code:   problem.Unauthorized,
		Detail: detail,
		Header: [2]string{"WWW-Authenticate", `Bearer realm="urifilter"` + params},
	}
}

func tooManyRefusals(wait time.Duration) error {
	seconds := strconv.Itoa(int((wait + time.Second - 1) / time.Second))
	return &problem.Error{
		Code:   problem.TooManyRefusals,
		Detail: "the token is not known, and neither were others from this address: look at the caller's settings, or wait " + seconds + " s",
		Header: [2]string{"Retry-After", seconds},
	}
}

func allows(scopes []string, scope string) bool {
	return slices.Contains(scopes, scope) || slices.Contains(scopes, scopeAdmin) ||
		scope == scopeRead && slices.Contains(scopes, scopeFilter)
}
