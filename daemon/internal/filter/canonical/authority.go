package canonical

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// hosts converts international names to ASCII as browsers do: UTS 46, not transitional,
// without the rules that names in use break (underscores, hyphens in third place).
var hosts = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false))

// ports are the default ports of schemes that have one.
var ports = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

// appendAuthority appends user, host and port. It returns false if the authority is malformed.
func appendAuthority(dst, scheme, authority []byte) ([]byte, bool) {
	host := authority
	if i := bytes.LastIndexByte(host, '@'); i >= 0 {
		dst = append(appendEscaped(dst, host[:i], unreserved, userBytes), '@')
		host = host[i+1:]
	}
	var port []byte
	if i := bytes.LastIndexByte(host, ':'); i >= 0 && bytes.IndexByte(host[i:], ']') < 0 {
		host, port = host[:i], host[i+1:]
	}
	defaultPort, web := ports[string(scheme)]
	if len(host) == 0 && (web || len(port) > 0) {
		return dst, false
	}
	for _, c := range port {
		if c < '0' || '9' < c {
			return dst, false
		}
	}
	dst, ok := appendHost(dst, host)
	if len(port) > 0 && string(port) != defaultPort {
		dst = append(append(dst, ':'), port...)
	}
	return dst, ok
}

// appendHost appends a host name or address in lower case and ASCII.
func appendHost(dst, host []byte) ([]byte, bool) {
	if len(host) > 0 && host[0] == '[' { // an IPv6 address
		if host[len(host)-1] != ']' {
			return dst, false
		}
		for _, c := range host[1 : len(host)-1] {
			if !isHex(c) && c != ':' && c != '.' {
				return dst, false
			}
		}
		return appendLower(dst, host), true
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
