package form

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/cr-clawer/urifilter/configs/strict"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/cookies"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// File is a file as people write it: one step, or several.
type File struct {
	Step  `yaml:",inline"`
	Steps []Step `yaml:"steps"` // one after the other, with the same cookies
	// Cookies is the file, beside this one, in which cookies are saved; "": they are not saved.
	Cookies string `yaml:"cookies"`
	// Avoid are parts of URIs whose links a crawl does not follow, because they would end the
	// session; if missing: DefaultAvoid. Case is ignored.
	Avoid []string `yaml:"avoid"`

	path string
}

// Step is a page whose form is filled in and sent, or that is only read.
type Step struct {
	Page     string     `yaml:"page"`     // URI of the page; after the first step it may be relative to where the last one ended
	Form     Which      `yaml:"form"`     // which form; if missing: the only one, or the only one with a password
	Fields   *yaml.Node `yaml:"fields"`   // names with values; missing fields are sent as the page has them
	Extra    *yaml.Node `yaml:"extra"`    // fields that a script of the page would add
	Submit   string     `yaml:"submit"`   // button, by name, id or value; "": the first
	Encoding string     `yaml:"encoding"` // "": as the form or page says
	Check    Check      `yaml:"check"`

	line    int
	posts   bool // there is something to send
	fields  []field
	sending []Extra
}

// DefaultAvoid are the usual names of links that end a session.
func DefaultAvoid() []string {
	return []string{"logout", "log-out", "log_out", "logoff", "signout", "sign-out", "sign_out", "action=quit"}
}

// Avoided reports whether a link is one that a crawl with the session does not follow.
func (f *File) Avoided(u *uri.URI) bool {
	avoid := f.Avoid
	if avoid == nil {
		avoid = DefaultAvoid()
	}
	path := strings.ToLower(u.Path)
	return slices.ContainsFunc(avoid, func(part string) bool { return strings.Contains(path, strings.ToLower(part)) })
}

// Check has the conditions after a step; all that are given must hold. The status must always be below 400.
type Check struct {
	Text   string `yaml:"text"`    // is on the page, in its source or in the visible text
	NoText string `yaml:"no_text"` // is not on the page
	URI    string `yaml:"uri"`     // is in the URI of the page, after redirects
	Cookie string `yaml:"cookie"`  // name of a cookie that the site has set
}

// Read reads a file, and the secrets that it names, relative to its own folder. env looks up environment
// variables. The error joins all faults, with file, line and key, but without values of fields.
func Read(path string, env func(string) (string, bool)) (*File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path}
	if err := strict.Decode(path, text, f); err != nil {
		return nil, err
	}
	root, err := strict.Parse(path, text)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, fmt.Errorf("%s: it is empty: want page, or steps", path)
	}
	return f, f.complete(root, &values{file: path, dir: filepath.Dir(path), env: env})
}

func (f *File) complete(root *yaml.Node, v *values) error {
	under := func(n *yaml.Node, key string) *yaml.Node {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
		return nil
	}
	if i := slices.Index(f.Avoid, ""); i >= 0 {
		v.fault(under(root, "avoid"), fmt.Sprintf("avoid[%d]", i), "it is empty: all links have that")
	}
	steps := under(root, "steps")
	if steps == nil {
		f.Steps = []Step{f.Step}
		f.Steps[0].complete(root, "", v)
		return errors.Join(v.faults...)
	}
	for _, key := range strict.Keys(stepType) {
		if n := under(root, key); n != nil {
			v.fault(n, key, "stands beside steps: want it in one of them")
		}
	}
	if len(f.Steps) == 0 {
		v.fault(steps, "steps", "want one or more")
	}
	for i := range f.Steps {
		f.Steps[i].complete(steps.Content[i], fmt.Sprintf("steps[%d]", i), v)
		if _, err := uri.Parse(f.Steps[i].Page); i > 0 && err != nil && f.Steps[i].Page != "" {
			continue // relative to the step before
		}
		f.Steps[i].absolute(steps.Content[i], fmt.Sprintf("steps[%d]", i), v)
	}
	return errors.Join(v.faults...)
}

// complete reads the fields of a step from its part of the file.
func (s *Step) complete(n *yaml.Node, key string, v *values) {
	s.line = n.Line
	if key == "" {
		s.absolute(n, key, v)
	}
	s.fields = v.read(s.Fields, strict.Join(key, "fields"))
	for _, f := range v.read(s.Extra, strict.Join(key, "extra")) {
		if f.value.Checked != nil || len(f.value.Uploads) > 0 {
			v.fault(s.Extra, strict.Join(key, "extra."+f.name), "want a text")
		}
		s.sending = append(s.sending, Extra{f.name, f.value.Texts})
	}
	s.posts = s.Fields != nil || s.Extra != nil || s.Submit != "" || s.Form != (Which{}) || s.Encoding != ""
	if s.Form.Index < 0 {
		v.fault(n, strict.Join(key, "form.index"), "%d: want 1 or more", s.Form.Index)
	}
	if _, err := htmlindex.Get(s.Encoding); s.Encoding != "" && err != nil {
		v.fault(n, strict.Join(key, "encoding"), "%q: want a name that browsers know, such as gbk", s.Encoding)
	}
}

func (s *Step) absolute(n *yaml.Node, key string, v *values) {
	if s.Page == "" {
		v.fault(n, strict.Join(key, "page"), "it is missing: want the URI of a page with a form")
	} else if _, err := uri.Parse(s.Page); err != nil {
		v.fault(n, strict.Join(key, "page"), "%v", err)
	}
}

// CookiesPath is the file of cookies, "" if there is none.
func (f *File) CookiesPath() string {
	if f.Cookies == "" || filepath.IsAbs(f.Cookies) {
		return f.Cookies
	}
	return filepath.Join(filepath.Dir(f.path), f.Cookies)
}

// OpenJar makes the jar of the steps, with the saved cookies if the file names a file for them.
// save saves what sites have set since.
func (f *File) OpenJar() (jar http.CookieJar, save func() error, err error) {
	path := f.CookiesPath()
	if path == "" {
		return cookies.New(0).Jar(0), func() error { return nil }, nil
	}
	kept, err := cookies.Open(path)
	if err != nil {
		return nil, nil, err
	}
	return kept, kept.Save, nil
}

// Checked returns an error if the last step has no check, so that a failed login is noticed.
func (f *File) Checked() error {
	if f.Steps[len(f.Steps)-1].Check == (Check{}) {
		return fmt.Errorf("%s:%d: check: it is missing: want a text, no_text, uri or cookie that tells whether the login worked", f.path, f.Steps[len(f.Steps)-1].line)
	}
	return nil
}

// where names a step in errors.
func (f *File) where(i int) string {
	return fmt.Sprintf("%s:%d", f.path, f.Steps[i].line)
}

// holds returns the conditions that a page does not meet.
func (c Check) holds(text, at string, hasCookie func(name string) bool) error {
	var faults []string
	shown := html.UnescapeString(text)
	has := func(part string) bool { return strings.Contains(text, part) || strings.Contains(shown, part) }
	if c.Text != "" && !has(c.Text) {
		faults = append(faults, fmt.Sprintf("the page has no %q", c.Text))
	}
	if c.NoText != "" && has(c.NoText) {
		faults = append(faults, fmt.Sprintf("the page has %q", c.NoText))
	}
	if c.URI != "" && !strings.Contains(at, c.URI) {
		faults = append(faults, fmt.Sprintf("its URI has no %q", c.URI))
	}
	if c.Cookie != "" && !hasCookie(c.Cookie) {
		faults = append(faults, fmt.Sprintf("the site has set no cookie %q", c.Cookie))
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}
