// Package uri reads URIs as browsers do (the URL standard of WHATWG), so that links in pages and
// redirects lead to where a browser would go: with \ for /, tabs and line ends, international
// names, and IPv4 addresses in octal, in hex or as one number. It supports only http and https.
package uri

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	whatwgerrors "github.com/nlnwa/whatwg-url/errors"
	whatwg "github.com/nlnwa/whatwg-url/url"
)

// MaxBytes is the length of the longest URI.
const MaxBytes = 64 << 10

// URI is an absolute URI of http or https in its normal form, without a fragment.
type URI struct {
	Scheme string     // http or https
	Host   string     // a name in lower case and ASCII, or an address, without brackets
	Addr   netip.Addr // if the host is an address; otherwise it is not valid
	Port   uint16
	Path   string // path and query, as sent; it begins with /
	// User is the part before the @, nil if there is none. String has no password.
	User *url.Userinfo

	href string // all of it, without user
}

// Parse reads an absolute URI.
func Parse(text string) (*URI, error) {
	if u := parsePlain(text); u != nil {
		return u, nil
	}
	return read(text, "")
}

// Resolve reads a reference as found in a page or a redirect of u.
func (u *URI) Resolve(reference string) (*URI, error) {
	if v := u.resolvePlain(reference); v != nil {
		return v, nil
	}
	return read(reference, u.href)
}

func read(text, base string) (*URI, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("longer than %d bytes", MaxBytes)
	}
	p, err := parse(text, base)
	if err != nil {
		return nil, fmt.Errorf("no URI: %s", reason(err))
	}
	u := &URI{Scheme: p.Scheme()}
	port := map[string]uint16{"http": 80, "https": 443}[u.Scheme]
	if port == 0 {
		return nil, fmt.Errorf("the scheme is %q, want http or https", u.Scheme)
	}
	u.Port = port
	if s := p.Port(); s != "" {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", s, err)
		}
		u.Port = uint16(n)
	}
	u.Host = strings.TrimSuffix(strings.TrimPrefix(p.Hostname(), "["), "]")
	if u.Host == "" || len(u.Host) > 253+1 { // with a dot at the end
		return nil, fmt.Errorf("a host of %d bytes, want 1 to 253", len(u.Host))
	}
	if addr, err := netip.ParseAddr(u.Host); err == nil {
		u.Addr = addr
	}
	u.Path = p.Pathname() + p.Search()
	if !strings.HasPrefix(u.Path, "/") {
		return nil, fmt.Errorf("a path that begins with no slash")
	}
	if p.Username() != "" || p.Password() != "" {
		u.User = userinfo(p.Username(), p.Password())
	}
	u.href = u.Scheme + "://" + u.Authority() + u.Path
	if len(u.href) > MaxBytes {
		return nil, fmt.Errorf("longer than %d bytes when it is encoded", MaxBytes)
	}
	return u, nil
}

// reason is what the library found, in one short clause and without the URI, which callers add.
func reason(err error) string {
	switch found := string(whatwgerrors.Type(err)); whatwgerrors.ErrorType(found) {
	case "":
		return err.Error()
	case whatwgerrors.MissingSchemeNonRelativeURL:
		return "it does not begin with a scheme, such as https://"
	default:
		return strings.ToLower(found[:1]) + found[1:]
	}
}

var parser = whatwg.NewParser() // safe for concurrent use

// parse turns a panic of the library into an error, because its input comes from strangers.
func parse(text, base string) (u *whatwg.Url, err error) {
	defer func() {
		if what := recover(); what != nil {
			u, err = nil, fmt.Errorf("not understood: %v", what)
		}
	}()
	text = encodeInvalid(text)
	if base == "" {
		return parser.Parse(text)
	}
	return parser.ParseRef(base, text)
}

// encodeInvalid percent-encodes bytes that are not UTF-8.
func encodeInvalid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, "%%%02X", text[i])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func userinfo(name, password string) *url.Userinfo {
	plain := func(s string) string {
		if p, err := url.PathUnescape(s); err == nil {
			return p
		}
		return s
	}
	return url.UserPassword(plain(name), plain(password))
}

// String is the URI without user and password.
func (u *URI) String() string { return u.href }

// Authority is the host, with its port unless that is the default of the scheme: the Host header.
func (u *URI) Authority() string {
	host := u.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Port == 80 && u.Scheme == "http" || u.Port == 443 && u.Scheme == "https" {
		return host
	}
	return host + ":" + strconv.Itoa(int(u.Port))
}

// Name is the host with one spelling per host: without the dot at its end.
func (u *URI) Name() string { return strings.TrimSuffix(u.Host, ".") }

// Origin is scheme, host and port: the scope of one robots.txt.
func (u *URI) Origin() string { return u.Scheme + "://" + u.Authority() }

// URL is the URI for net/http, whatever its path contains; proxied says that an HTTP proxy
// gets the whole URI.
func (u *URI) URL(proxied bool) *url.URL {
	if to := u.plainURL(); to != nil {
		return to
	}
	if to, err := url.Parse(u.href); err == nil && to.RequestURI() == u.Path {
		return to
	}
	to := &url.URL{Scheme: u.Scheme, Host: u.Authority(), Opaque: u.Path} // as in /%zz, which net/url refuses
	if proxied || strings.HasPrefix(u.Path, "//") {
		to.Opaque = "//" + u.Authority() + u.Path
	}
	return to
}

// login is what stands before the host of a URI: user and password, or a token in place of them. Browsers
// take all up to the last @ before the path, and read backslashes as slashes; after http: they
// need no slashes.
var login = regexp.MustCompile(`(?i)((?:\bhttps?:|[/\\]{2})[/\\]*)[^/\\?#\s"'<>]*@`)

// whole is login where a text begins with a URI, whose user and password may have any characters.
var whole = regexp.MustCompile(`(?i)^(\s*h\s*t\s*t\s*p\s*s?\s*:[/\\\s]*)[^/\\?#]*@`)

// Redacted stands for what is not shown.
const Redacted = "xxxxx"

// Redact returns a text with the user and password of each URI in it replaced: what is stored may be
// needed for a request; what people and other programs are shown must not let them log in.
func Redact(text string) string {
	for i := range len(text) {
		if text[i] == '@' {
			return login.ReplaceAllString(whole.ReplaceAllString(text, "${1}"+Redacted+"@"), "${1}"+Redacted+"@")
		}
	}
	return text
}
