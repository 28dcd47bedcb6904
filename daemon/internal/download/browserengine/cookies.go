package browserengine

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/cookies"
	uris "github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// jar is the job's cookie jar as a request sees it. The browser keeps the cookies of this page
// itself; the job's are kept beside them, only for requests within the page's site: a request to
// another site neither gets nor leaves any.
type jar struct {
	kept http.CookieJar
	sent []string // names of cookies that the browser itself sends; its values are newer
}

// nothing is a jar without cookies, which accepts none.
type nothing struct{}

func (nothing) Cookies(*url.URL) []*http.Cookie     { return nil }
func (nothing) SetCookies(*url.URL, []*http.Cookie) {}

// jar returns the job's jar for a request to a URI. sent has the cookies that the browser sends.
func (v *visit) jar(to *uris.URI, isMain bool, sent string) http.CookieJar {
	kept := v.e.o.HTTP.Jar(v.w.Job)
	if kept == nil || !isMain && cookies.SiteOf(to.Host) != v.site() {
		return nothing{}
	}
	j := jar{kept: kept}
	for _, c := range cookiesIn(sent) {
		j.sent = append(j.sent, c.Name)
	}
	return j
}

// site is the site of the page.
func (v *visit) site() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.main == nil {
		return ""
	}
	u, err := uris.Parse(v.main.result.URI)
	if err != nil {
		return ""
	}
	return cookies.SiteOf(u.Host)
}

// Cookies implements http.CookieJar.
func (j jar) Cookies(u *url.URL) []*http.Cookie {
	return slices.DeleteFunc(j.kept.Cookies(u), func(c *http.Cookie) bool { return slices.Contains(j.sent, c.Name) })
}

// SetCookies implements http.CookieJar.
func (j jar) SetCookies(u *url.URL, set []*http.Cookie) { j.kept.SetCookies(u, set) }

func cookiesIn(header string) []*http.Cookie {
	r := http.Request{Header: http.Header{"Cookie": {header}}}
	return r.Cookies()
}

// joinCookies makes a header with the cookies of a setting, except those that the browser sends.
func joinCookies(setting, sent string) string {
	if sent == "" || setting == "" {
		return setting + sent
	}
	newer := cookiesIn(sent)
	var parts []string
	for part := range strings.SplitSeq(setting, ";") {
		part = strings.TrimSpace(part)
		name, _, _ := strings.Cut(part, "=")
		if part != "" && !slices.ContainsFunc(newer, func(c *http.Cookie) bool { return c.Name == name }) {
			parts = append(parts, part)
		}
	}
	return strings.Join(append(parts, sent), "; ")
}
