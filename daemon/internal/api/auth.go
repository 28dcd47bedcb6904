package api

import (
	"slices"
	"strings"
)

// The scopes of tokens. admin includes all others, filter includes read.
const (
	scopeRead   = "read"
	scopeFilter = "filter"
	scopeAdmin  = "admin"
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
		return true, unauthorized("Authorization: want Bearer and a token", "")
	}
	return true, c.admit(strings.TrimSpace(secret), scope)
}

// admit checks that secret is a token with the scope.
func (c *call) admit(secret, scope string) error {
	if secret == "" {
		return unauthorized("send Authorization: Bearer and a token", "")
	}
	name, scopes, ok := c.s.auth(secret)
	if !ok {
		return unauthorized("the token is not known", `, error="invalid_token"`)
	}
	c.who = name
	if allows(scopes, scope) {
		return nil
	}
	return &fault{
		code:   codeForbidden,
		detail: "token " + name + " lacks the scope " + scope,
		header: [2]string{"WWW-Authenticate", `Bearer realm="urifilter", error="insufficient_scope", scope="` + scope + `"`},
	}
}

func unauthorized(detail, params string) error {
	return &fault{
		code:   codeUnauthorized,
		detail: detail,
		header: [2]string{"WWW-Authenticate", `Bearer realm="urifilter"` + params},
	}
}

func allows(scopes []string, scope string) bool {
	return slices.Contains(scopes, scope) || slices.Contains(scopes, scopeAdmin) ||
		scope == scopeRead && slices.Contains(scopes, scopeFilter)
}
