package browserengine

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/cookies"
	uris "github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// jar is that of the job as a request sees it. The browser has its own cookies, those of this page;
// the job's are kept beside them, for requests within the site of the page alone: what a page has
// others load gets none, and leaves none.
type jar struct {
	kept http.CookieJar
	sent []string // names that the browser sends by itself, of which its values are the newer ones
}

// nothing is a jar that has no cookie, and takes none.
type nothing struct{}

func (nothing) Cookies(*url.URL) []*http.Cookie     { return nil }
func (nothing) SetCookies(*url.URL, []*http.Cookie) {}

// jar is what a request to a URI has of the job's cookies, if the browser sends some.
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

// site is that of the page.
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

// joinCookies is a header with the cookies of a setting, but for those that the browser sends.
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
