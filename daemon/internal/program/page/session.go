package page

import (
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
)

const (
	// sessionTime is how long a log-in lasts.
	sessionTime = 12 * time.Hour
	// maxSessions bounds the log-ins of one token; a further one ends the oldest.
	maxSessions = 20
)

// sessions are the browsers that have logged in. Each has the token, so that one that is taken back ends its sessions, too;
// the browser has only a random name for it. As only known tokens log in, their number bounds that of the sessions.
type sessions struct {
	mu sync.Mutex
	of map[string]session // by what the cookie says: 128 random bits, which cannot be guessed from how long a look-up takes
}

type session struct {
	token, secret string // its name, and it
	begun         time.Time
}

func (s *sessions) secret(id string, now time.Time) (secret string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.of[id]
	if !ok || now.Sub(found.begun) >= sessionTime {
		return "", false
	}
	return found.secret, true
}

func (s *sessions) begin(token, secret string, now time.Time) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]session{}
	}
	oldest, have := "", 0
	for id, other := range s.of {
		switch {
		case now.Sub(other.begun) >= sessionTime:
			delete(s.of, id)
		case other.token == token:
			if have++; oldest == "" || other.begun.Before(s.of[oldest].begun) {
				oldest = id
			}
		}
	}
	if have >= maxSessions {
		delete(s.of, oldest)
	}
	id = rand.Text()
	s.of[id] = session{token, secret, now}
	return id
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, id)
}

// cookieName has the port, since browsers send a cookie to all ports of a host.
func cookieName(r *http.Request, program string) string {
	name := program + "_session"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "_" + port
	}
	if overTLS(r) {
		return "__Host-" + name
	}
	return name
}

func sessionOf(r *http.Request, program string) string {
	c, err := r.Cookie(cookieName(r, program))
	if err != nil {
		return ""
	}
	return c.Value
}

// overTLS: what a proxy says can only make a cookie more secret.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

func (v *View) setCookie(value string, age int) {
	http.SetCookie(v.w, &http.Cookie{
		Name: cookieName(v.Request, v.Program), Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: overTLS(v.Request), SameSite: http.SameSiteStrictMode,
	})
}

// login exchanges a token for a session. The Guard counts unknown ones as those of other calls, and tells a caller that
// sends many of them to stop.
func (s *Site) login(v *View) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	secret := strings.TrimSpace(form.Get("token"))
	if s.Guard.AsksTokens() {
		name, err := s.Guard.Token(access.Call{Request: v.Request, Path: Prefix + "login", Scope: s.Read}, secret)
		if err != nil {
			v.explain(err)
			return v.show(v.Status, "login")
		}
		s.sessions.end(sessionOf(v.Request, s.Program))
		v.setCookie(s.sessions.begin(name, secret, s.Now()), int(sessionTime.Seconds()))
	}
	return v.to("/")
}

func (s *Site) logout(v *View) error {
	s.sessions.end(sessionOf(v.Request, s.Program))
	v.setCookie("", -1)
	return v.to("/")
}

// to sends the browser to another page.
func (v *View) to(path string) error {
	v.w.Header().Set("Location", path)
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}
