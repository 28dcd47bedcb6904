package uri

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// plainBytes need no encoding in a path, nor those of plainQuery in a query.
var plainBytes, plainQuery = bytesOf("-_.~!$&()*+,;=:@/"), bytesOf("-_.~!$&()*+,;=:@/?%")

func bytesOf(more string) (set [256]bool) {
	for c := '0'; c <= '9'; c++ {
		set[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		set[c], set[c-'a'+'A'] = true, true
	}
	for i := range len(more) {
		set[more[i]] = true
	}
	return set
}

// plainPath reports whether nothing must be encoded or removed in a path with its query.
func plainPath(path string) bool {
	if path == "" || path[0] != '/' || strings.Contains(path, "/.") {
		return false
	}
	set := &plainBytes
	for i := range len(path) {
		switch c := path[i]; {
		case c == '?' && set == &plainBytes:
			if i == len(path)-1 {
				return false // an empty query is removed
			}
			set = &plainQuery
		case c == '%' && set == &plainBytes: // an encoded dot counts as a dot
			if strings.HasPrefix(path[i:], "%2e") || strings.HasPrefix(path[i:], "%2E") {
				return false
			}
		case !set[c]:
			return false
		}
	}
	return true
}

// resolvePlain resolves the most common links: a path on the same host in which nothing must be
// encoded or removed, with or without query and fragment. The parser takes 20 times as long. The
// result is nil for all other links.
func (u *URI) resolvePlain(reference string) *URI {
	reference, _, _ = strings.Cut(reference, "#")
	if len(reference) < 2 || reference[1] == '/' || !plainPath(reference) {
		return nil
	}
	v := *u
	v.User, v.Path = nil, reference
	if v.href = u.Origin() + reference; len(v.href) > MaxBytes {
		return nil
	}
	return &v
}

// parsePlain reads the most common URIs, which are in their normal form already: an ASCII name or an
// IPv4 address, perhaps a port, and a path as in resolvePlain. The result is nil for all other URIs.
func parsePlain(text string) *URI {
	text, _, _ = strings.Cut(text, "#")
	u := &URI{}
	rest, ok := strings.CutPrefix(text, "http://")
	if u.Scheme, u.Port = "http", 80; !ok {
		rest, ok = strings.CutPrefix(text, "https://")
		u.Scheme, u.Port = "https", 443
	}
	slash := strings.IndexByte(rest, '/')
	if !ok || slash < 0 || len(text) > MaxBytes || !plainPath(rest[slash:]) {
		return nil
	}
	u.Path = rest[slash:]
	host, port, ported := strings.Cut(rest[:slash], ":")
	if !plainName(host) {
		return nil
	}
	if last := host[strings.LastIndexByte(host, '.')+1]; last >= '0' && last <= '9' { // it counts as an address
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return nil
		}
		u.Addr = addr
	}
	u.Host, u.href = host, text
	if ported {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || port[0] == '0' || uint16(n) == u.Port {
			return nil
		}
		u.Port = uint16(n)
	}
	return u
}

// plainName reports whether a host is labels of lower-case letters and digits, none of them encoded.
func plainName(host string) bool {
	if len(host) > 253 {
		return false
	}
	label := 0 // the length so far
	for i := range len(host) {
		switch c := host[i]; {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
		case c == '-' && label > 0 && host[i-1] != '-': // not two in a row, as in xn--
		case c == '.' && label > 0 && host[i-1] != '-':
			label = -1
		default:
			return false
		}
		if label++; label > 63 {
			return false
		}
	}
	return label > 0 && host[len(host)-1] != '-'
}

// plainURL is the URI for net/http, if its path needs no encoding; otherwise nil.
func (u *URI) plainURL() *url.URL {
	path, query, asked := strings.Cut(u.Path, "?")
	if asked && query == "" || strings.HasPrefix(path, "//") {
		return nil
	}
	for i := range len(path) {
		if c := path[i]; c < '-' || c > '/' && !plainBytes[c] || strings.IndexByte("!$&()*+,;=:@", c) >= 0 {
			return nil
		}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Authority(), Path: path, RawQuery: query}
}
