// Package canonical brings URIs into a canonical form, so that different spellings of one
// address count as one item.
//
// The form [Safe] changes nothing that a server could tell apart by the standards: it is the
// syntax-based normalization of RFC 3986, section 6.2.2 (letter case of scheme, host and
// escapes; escapes of unreserved characters; dot segments), its section 6.2.3 as far as
// default ports and an empty path go, the mapping of RFC 3987, section 3.1 for bytes that are
// not ASCII, and ASCII names of international hosts (UTS 46, as browsers do). [Crawl] goes as
// far as crawlers usually do: it reads a URI as browsers do (the URL standard of WHATWG) and as our
// crawler does, so that all spellings of what is asked for are one; it also sorts the query, and
// removes the fragment and parameters that track or name a session. docs/canonical.md compares it
// with Scrapy's.
//
// Only URIs with an authority (scheme://..., and for Crawl http:/... and the like) have a canonical form. Anything else, and anything
// malformed, is left as it is: it stays different from everything else.
package canonical

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// Form is how far URIs are normalized.
type Form uint8

const (
	None  Form = iota // not at all
	Safe              // as far as the standards say that it makes no difference
	Crawl             // as far as it rarely makes a difference to a crawler
)

var forms = [...]string{None: "none", Safe: "safe", Crawl: "crawl"}

func (f Form) String() string { return forms[f] }

// ParseForm is the inverse of String.
func ParseForm(s string) (Form, error) {
	for f, name := range forms {
		if s == name {
			return Form(f), nil
		}
	}
	return None, fmt.Errorf("canonical: %q: want %s", s, strings.Join(forms[:], ", "))
}

// Rule says how the URIs of one filter are normalized. The zero value leaves them as they are.
type Rule struct {
	Form Form
	Drop *Names // parameters of queries and paths that Crawl leaves out; nil: none
}

// Canonicalizer brings URIs into a canonical form. The zero value is ready for use. It is not
// safe for concurrent use.
type Canonicalizer struct {
	query []param // of the current URI
	value []byte  // names and values of query, unescaped
	path  []byte
	uri   []byte
}

// Append appends the canonical form of uri to dst. It is idempotent: the canonical form of a
// canonical form is itself.
func (c *Canonicalizer) Append(dst, uri []byte, by Rule) []byte {
	if by.Form == None {
		return append(dst, uri...)
	}
	start := len(dst)
	whole := uri
	if by.Form == Crawl {
		uri = c.clean(uri)
	}
	p, ok := split(uri, by.Form)
	if !ok {
		return append(dst, whole...)
	}
	dst = append(appendLower(dst, p.scheme), "://"...)
	if dst, ok = appendAuthority(dst, dst[start:start+len(p.scheme)], p.authority, by.Form); !ok {
		return append(dst[:start], whole...)
	}
	dst = c.appendPath(dst, p.path, by)
	if by.Form == Crawl {
		return c.appendSorted(dst, p.query, by.Drop)
	}
	if p.query != nil {
		dst = appendEscaped(append(dst, '?'), p.query, unreserved, queryBytes)
	}
	if p.fragment != nil {
		dst = appendEscaped(append(dst, '#'), p.fragment, unreserved, queryBytes)
	}
	return dst
}

// clean does what browsers do before they read a URI: it removes spaces and control characters from
// both ends, and tabs and line ends everywhere; and in front of the query of a URI of the web it takes \ for /.
func (c *Canonicalizer) clean(uri []byte) []byte {
	for len(uri) > 0 && uri[0] <= ' ' {
		uri = uri[1:]
	}
	for len(uri) > 0 && uri[len(uri)-1] <= ' ' {
		uri = uri[:len(uri)-1]
	}
	if isClean(uri) {
		return uri
	}
	if bytes.IndexByte(uri, '\t') >= 0 || bytes.IndexByte(uri, '\n') >= 0 || bytes.IndexByte(uri, '\r') >= 0 {
		c.uri = c.uri[:0]
		for _, b := range uri {
			if b != '\t' && b != '\n' && b != '\r' {
				c.uri = append(c.uri, b)
			}
		}
		uri = c.uri
	}
	if bytes.IndexByte(uri, '\\') < 0 {
		return uri
	}
	if i := bytes.IndexByte(uri, ':'); i < 1 || !isWeb(uri[:i]) {
		return uri
	}
	c.uri = append(c.uri[:0], uri...)
	for i, b := range c.uri {
		if b == '?' || b == '#' {
			break
		}
		if b == '\\' {
			c.uri[i] = '/'
		}
	}
	return c.uri
}

// isClean reports whether a URI has neither control characters nor \, eight bytes at a time.
func isClean(uri []byte) bool {
	const each, top = 0x0101010101010101, 0x8080808080808080
	for ; len(uri) >= 8; uri = uri[8:] {
		x := binary.LittleEndian.Uint64(uri)
		y := x ^ '\\'*each
		if ((x-' '*each)&^x|(y-each)&^y)&top != 0 { // a byte of x is below a space, or one of y is zero
			return false
		}
	}
	for _, c := range uri {
		if c < ' ' || c == '\\' {
			return false
		}
	}
	return true
}

// parts are the parts of a URI with an authority; nil: the URI does not have the part.
type parts struct{ scheme, authority, path, query, fragment []byte }

// split splits a URI into its parts, as RFC 3986, appendix B does. For Crawl any number of slashes
// begins the authority of a URI of the web, as in browsers.
func split(uri []byte, form Form) (p parts, ok bool) {
	i := bytes.IndexByte(uri, ':')
	if i < 1 || !isScheme(uri[:i]) {
		return p, false
	}
	rest := uri[i+1:]
	switch {
	case form == Crawl && (len(rest) < 3 || rest[0] != '/' || rest[1] != '/' || rest[2] == '/') && isWeb(uri[:i]):
		for len(rest) > 0 && rest[0] == '/' {
			rest = rest[1:]
		}
	case bytes.HasPrefix(rest, []byte("//")):
		rest = rest[2:]
	default:
		return p, false
	}
	p.scheme, uri = uri[:i], rest
	if i = bytes.IndexByte(uri, '#'); i >= 0 {
		uri, p.fragment = uri[:i], uri[i+1:]
	}
	if i = bytes.IndexByte(uri, '?'); i >= 0 {
		uri, p.query = uri[:i], uri[i+1:]
	}
	if i = bytes.IndexByte(uri, '/'); i < 0 {
		i = len(uri)
	}
	p.authority, p.path = uri[:i], uri[i:]
	return p, true
}

func isScheme(s []byte) bool {
	for i, c := range s {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return true
}

func appendLower(dst, s []byte) []byte {
	for _, c := range s {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}
