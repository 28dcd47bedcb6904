package pages

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// Bounds of names in bytes, so that a page's whole path fits in the 260 characters of Windows.
const (
	maxHost = 80
	maxPath = 80
)

// Name is the file of a URI under the folder of pages, with / between its two parts: the host, and
// the path with a mark of hexadecimal digits.
//
//	http://example.com/news/today.html?p=2   example.com/news_today.html-p-2-0123456789abcdef.html
//
// It is made of lower-case letters, digits and -_. only, so it also works on systems that ignore
// letter case, and Windows does not reserve it. The same URI and type always have the same name.
// For URIs with a plain host and path (lower case, nothing but letters, digits, dots, hyphens; no
// query) the mark has 8 digits, and two never share a name. Others have 16 digits, of a hash: among
// ten million pages, two share a name with a chance of 3 in a million.
func Name(u *uri.URI, mediaType string) string {
	extension := Extension(mediaType)
	host, plainHost := hostPart(u)
	path, plainPath := pathPart(u.Path)
	stripped := false
	if short, ok := strings.CutSuffix(path, "."+extension); ok && plainPath && short != "" && short[len(short)-1] != '_' && short != "index" {
		path, stripped = short, true
	}
	sum := sha256.Sum256([]byte(u.String()))
	if !plainHost || !plainPath {
		return host + "/" + path + "-" + hex.EncodeToString(sum[:8]) + "." + extension
	}
	// What path and host do not show: the scheme, and whether the URI had the extension.
	sum[0] &^= 3
	if u.Scheme == "https" {
		sum[0] |= 1
	}
	if stripped {
		sum[0] |= 2
	}
	return host + "/" + path + "-" + hex.EncodeToString(sum[:4]) + "." + extension
}

// hostPart returns the folder of a host. It is plain if no other host and port have it.
func hostPart(u *uri.URI) (name string, plain bool) {
	name, plain = u.Host, true
	switch {
	case strings.Contains(name, ":"):
		name, plain = "ipv6-"+strings.ReplaceAll(name, ":", "-"), false
	case strings.Trim(name, ".") != name || reserved(name) || len(name) > maxHost:
		plain = false
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.') {
			c, plain = '-', false
		}
		b.WriteByte(c)
	}
	name = strings.Trim(b.String(), ".")
	name = name[:min(len(name), maxHost)]
	if name = strings.TrimRight(name, "."); name == "" || reserved(name) {
		name, plain = "host-"+name, false
	}
	if u.Port != 80 && u.Scheme == "http" || u.Port != 443 && u.Scheme == "https" {
		name += "_" + strconv.Itoa(int(u.Port))
	}
	return name, plain
}

// pathPart makes one name of path and query. It is plain if no other path gives it.
func pathPart(path string) (name string, plain bool) {
	if path == "/" {
		return "index", true
	}
	path = strings.TrimPrefix(path, "/")
	plain = path != "index" && path != "index.html" && len(path) <= maxPath && !strings.HasPrefix(path, ".")
	var b strings.Builder
	for i := 0; i < len(path) && b.Len() < maxPath; {
		r, size := character(path[i:])
		i += size
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' || r == '-':
			b.WriteRune(r)
		case r == '/':
			b.WriteByte('_')
		case r == '_':
			b.WriteByte('_')
			plain = false
		case 'A' <= r && r <= 'Z':
			b.WriteRune(r + 'a' - 'A')
			plain = false
		case r >= 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r)) && b.Len()+utf8.UTFMax <= maxPath:
			b.WriteRune(unicode.ToLower(r))
			plain = false
		default:
			if plain = false; b.Len() > 0 && b.String()[b.Len()-1] != '-' {
				b.WriteByte('-')
			}
		}
	}
	if name = strings.TrimLeft(b.String(), "."); !plain {
		name = strings.TrimRight(name, "-")
	}
	if name == "" {
		name = "page"
	}
	if reserved(name) {
		name, plain = "page-"+name, false
	}
	return name, plain
}

// character returns the next character of a path as people would read it: escapes of UTF-8 are
// decoded, but those of ASCII count as characters that cannot be in a name.
func character(s string) (r rune, size int) {
	if s[0] != '%' {
		return rune(s[0]), 1
	}
	var b []byte
	for len(s) >= 3*(len(b)+1) && s[3*len(b)] == '%' && len(b) < utf8.UTFMax {
		c, err := strconv.ParseUint(s[3*len(b)+1:3*len(b)+3], 16, 8)
		if err != nil {
			break
		}
		b = append(b, byte(c))
		if utf8.FullRune(b) {
			break
		}
	}
	if r, n := utf8.DecodeRune(b); n > 1 {
		return r, 3 * n
	}
	return '%', 1
}

// reserved reports whether Windows takes a name for a device, whatever follows its first dot.
func reserved(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	switch name {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	if len(name) > 3 && (name[:3] == "com" || name[:3] == "lpt") {
		switch name[3:] {
		case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
			return true
		}
	}
	return false
}
