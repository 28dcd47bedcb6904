package cookies

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// maxKept is how many cookies a File remembers; beyond it, it forgets those that expired, or that the jar has dropped.
const maxKept = 10_000

// maxFile is the length of the longest file that is read. If the cookies need more, the oldest are not saved.
const maxFile = 32 << 20

// File is a jar whose cookies can be saved, including those that end with the session: the next
// process is still logged in. It has the bounds of a Store. It is safe for concurrent use.
type File struct {
	path  string
	now   func() time.Time
	jar   http.CookieJar
	limit int // bytes of the file

	mu   sync.Mutex
	kept map[string]saved
	next int // order of the next one
}

// saved is a cookie in the file.
type saved struct {
	Origin   string    `json:"origin"` // scheme and host that set it
	Path     string    `json:"path"`   // below which it is sent
	Domain   string    `json:"domain"` // "": only the host
	Name     string    `json:"name"`
	Value    string    `json:"value"`
	Expires  time.Time `json:"expires,omitzero"` // none: it ends with the session
	Secure   bool      `json:"secure"`
	HTTPOnly bool      `json:"http_only"`

	order int
}

// Open reads the file at path; if it does not exist, the jar is empty. The error says if others can
// read the file, or if it is broken.
func Open(path string) (*File, error) { return open(path, time.Now) }

func open(path string, now func() time.Time) (*File, error) {
	f := &File{path: path, now: now, jar: New(0).Jar(0), limit: maxFile, kept: map[string]saved{}}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // Save would refuse it, after the login
		return nil, fmt.Errorf("%s: this is no regular file", path)
	}
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s: others may read it (mode %04o): whoever has these cookies is logged in\nhint: chmod 600 %s", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: longer than %d bytes", path, maxFile)
	}
	return f, f.load(text)
}

// load reads cookies, one JSON object per line.
func (f *File) load(text []byte) error {
	for i, line := range bytes.Split(text, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var s saved
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&s); err != nil { // the error text has no value of a cookie
			return fmt.Errorf("%s:%d: no cookie: want a JSON object as it was saved\nhint: remove the file, and log in again", f.path, i+1)
		}
		u, err := url.Parse(s.Origin)
		if err != nil || u.Host == "" || s.Name == "" || !strings.HasPrefix(s.Path, "/") {
			return fmt.Errorf("%s:%d: no cookie: want origin, path and name\nhint: remove the file, and log in again", f.path, i+1)
		}
		if !s.Expires.IsZero() && !s.Expires.After(f.now()) {
			continue
		}
		u.Path = s.Path
		f.SetCookies(u, []*http.Cookie{{Name: s.Name, Value: s.Value, Path: s.Path, Domain: s.Domain, Expires: s.Expires, Secure: s.Secure, HttpOnly: s.HTTPOnly}})
	}
	return nil
}

// Cookies implements http.CookieJar.
func (f *File) Cookies(u *url.URL) []*http.Cookie { return f.jar.Cookies(u) }

// SetCookies implements http.CookieJar.
func (f *File) SetCookies(u *url.URL, set []*http.Cookie) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jar.SetCookies(u, set)
	for _, c := range set {
		key, allowed := identity(u, c)
		if !allowed {
			continue
		}
		s := saved{Origin: u.Scheme + "://" + u.Host, Path: pathOf(u, c), Domain: strings.ToLower(strings.TrimPrefix(c.Domain, ".")), Name: c.Name, Value: c.Value,
			Expires: c.Expires, Secure: c.Secure, HTTPOnly: c.HttpOnly, order: f.next}
		f.next++
		if c.MaxAge > 0 {
			s.Expires = f.now().Add(time.Duration(min(c.MaxAge, maxAge)) * time.Second)
		}
		if c.MaxAge < 0 || !s.Expires.IsZero() && !s.Expires.After(f.now()) {
			delete(f.kept, key)
			continue
		}
		f.kept[key] = s
	}
	if len(f.kept) > maxKept {
		f.forget()
	}
}

// forget drops all cookies but those that the jar still sends.
func (f *File) forget() {
	now := f.now()
	maps.DeleteFunc(f.kept, func(_ string, s saved) bool {
		u, err := url.Parse(s.Origin)
		if err != nil || !s.Expires.IsZero() && !s.Expires.After(now) {
			return true
		}
		if u.Path = s.Path; s.Secure {
			u.Scheme = "https"
		}
		return !slices.ContainsFunc(f.jar.Cookies(u), func(c *http.Cookie) bool { return c.Name == s.Name && c.Value == s.Value })
	})
}

// Save writes the file in one step: after a crash either the old or the new file exists. Only its
// owner may read it.
func (f *File) Save() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
	all := slices.SortedFunc(maps.Values(f.kept), func(a, b saved) int { return a.order - b.order })
	var lines [][]byte
	left := f.limit
	for _, s := range slices.Backward(all) {
		line, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if left -= len(line) + 1; left < 0 {
			break
		}
		lines = append(lines, append(line, '\n'))
	}
	slices.Reverse(lines)
	return disk.FS{}.WriteFile("cookies", f.path, func(out *disk.File) error {
		return out.WriteAt("cookies", bytes.Join(lines, nil), 0)
	})
}
