package canonical

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// hosts converts international names to ASCII as browsers do: UTS 46, not transitional,
// without the rules that names in use break (underscores, hyphens in third place).
var hosts = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false))

// defaultPort returns the default port of a scheme of the web, in lower case.
func defaultPort(scheme []byte) (port string, web bool) {
	switch string(scheme) {
	case "http", "ws":
		return "80", true
	case "https", "wss":
		return "443", true
	case "ftp":
		return "21", true
	}
	return "", false
}

// isWeb reports whether a scheme, in any letter case, is one that browsers read in their own way.
func isWeb(scheme []byte) bool {
	var buf [8]byte
	if len(scheme) > len(buf) {
		return false
	}
	_, web := defaultPort(appendLower(buf[:0], scheme))
	return web
}

// appendAuthority appends user, host and port. It returns false if the authority is malformed.
func appendAuthority(dst, scheme, authority []byte, form Form) ([]byte, bool) {
	host := authority
	usual, web := defaultPort(scheme)
	asBrowsers := web && form == Crawl
	if i := bytes.LastIndexByte(host, '@'); i >= 0 {
		user := host[:i]
		if asBrowsers { // they leave out what is empty
			user = bytes.TrimSuffix(user, []byte(":"))
		}
		if !asBrowsers || len(user) > 0 {
			dst = append(appendEscaped(dst, user, unreserved, userBytes), '@')
		}
		host = host[i+1:]
	}
	var port []byte
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		host, port = host[:i], host[i+1:]
	}
	if len(host) == 0 && (web || len(port) > 0) {
		return dst, false
	}
	for _, c := range port {
		if c < '0' || '9' < c {
			return dst, false
		}
	}
	for len(port) > 1 && port[0] == '0' {
		port = port[1:]
	}
	start := len(dst)
	dst, ok := appendHost(dst, host)
	if ok && asBrowsers && (isHex(dst[len(dst)-1]) || dst[len(dst)-1] == '.' || dst[len(dst)-1] == 'x') {
		dst = appendReduced(dst[:start], dst[start:])
	}
	if len(port) > 0 && string(port) != usual {
		dst = append(append(dst, ':'), port...)
	}
	return dst, ok
}

// appendHost appends a host name or address in lower case and ASCII.
func appendHost(dst, host []byte) ([]byte, bool) {
	if len(host) > 0 && host[0] == '[' {
		return appendIPv6(dst, host)
	}
	start, plain := len(dst), true
	for i := 0; i < len(host); i++ {
		c := host[i]
		if c == '%' && i+2 < len(host) && isHex(host[i+1]) && isHex(host[i+2]) {
			c = unhex(host[i+1])<<4 | unhex(host[i+2])
			i += 2
		}
		switch {
		case c >= 0x80:
			plain = false
		case !hostBytes[c]:
			return dst[:start], false
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		}
		dst = append(dst, c)
	}
	if plain {
		return dst, true
	}
	if !utf8.Valid(dst[start:]) {
		return dst[:start], false
	}
	ascii, err := hosts.ToASCII(string(dst[start:]))
	if err != nil || ascii == "" {
		return dst[:start], false
	}
	dst = dst[:start]
	for i := range len(ascii) {
		if !hostBytes[ascii[i]] { // the result of the mapping is not a name
			return dst, false
		}
	}
	return append(dst, ascii...), true
}

// appendIPv6 appends an address in brackets in the form of RFC 5952, but an IPv4 address in it in hexadecimal, as
// browsers do.
func appendIPv6(dst, host []byte) ([]byte, bool) {
	if host[len(host)-1] != ']' {
		return dst, false
	}
	addr, err := netip.ParseAddr(string(host[1 : len(host)-1]))
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return dst, false
	}
	dst = append(dst, '[')
	if b := addr.As16(); addr.Is4In6() {
		dst = append(dst, "::ffff:"...)
		dst = strconv.AppendUint(dst, uint64(b[12])<<8|uint64(b[13]), 16)
		dst = strconv.AppendUint(append(dst, ':'), uint64(b[14])<<8|uint64(b[15]), 16)
	} else {
		dst = addr.AppendTo(dst)
	}
	return append(dst, ']'), true
}

// appendReduced appends a host, in lower case, that begins at the end of dst: without the dot
// behind it, and an IPv4 address that has another form in the usual one. Such hosts end in a dot, in a digit,
// which may be hexadecimal, or in 0x.
func appendReduced(dst, host []byte) []byte {
	if n := len(host) - 1; n > 0 && host[n] == '.' && host[n-1] != '.' {
		host = host[:n]
	}
	last := host[bytes.LastIndexByte(host, '.')+1:]
	if len(last) > 0 && '0' <= last[0] && last[0] <= '9' {
		if v4, ok := parseIPv4(host); ok {
			return netip.AddrFrom4(v4).AppendTo(dst)
		}
	}
	return append(dst, host...)
}

// parseIPv4 reads an address as the URL standard does: one to four numbers, each decimal, octal (0...) or
// hexadecimal (0x...), of which the last fills all bytes that are left.
func parseIPv4(host []byte) (v4 [4]byte, ok bool) {
	var value, parts uint64
	for rest, more := host, true; more; parts++ {
		var number []byte
		number, rest, more = bytes.Cut(rest, []byte("."))
		n, ok := parseNumber(number)
		if !ok || parts == 4 || more && n > 255 || !more && n >= 1<<(8*(4-parts)) {
			return v4, false
		}
		if more {
			value |= n << (8 * (3 - parts))
		} else {
			value |= n
		}
	}
	binary.BigEndian.PutUint32(v4[:], uint32(value))
	return v4, true
}

// parseNumber reads a part of an IPv4 address; what is larger than any address is some large number.
func parseNumber(s []byte) (n uint64, ok bool) {
	if len(s) == 0 {
		return 0, false
	}
	base := uint64(10)
	switch {
	case len(s) > 1 && s[0] == '0' && s[1] == 'x':
		base, s = 16, s[2:]
	case len(s) > 1 && s[0] == '0':
		base, s = 8, s[1:]
	}
	for _, c := range s {
		if !isHex(c) || uint64(unhex(c)) >= base {
			return 0, false
		}
		n = min(n*base+uint64(unhex(c)), 1<<33)
	}
	return n, true
}
