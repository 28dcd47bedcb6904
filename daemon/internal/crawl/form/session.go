package form

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/charset"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

var stepType = reflect.TypeFor[Step]()

// errNoForm: the page lacks the form that is meant.
var errNoForm = errors.New("no form")

// pageLimit is the length of the longest page that is read.
const pageLimit = 8 << 20

// Session runs the steps of a file.
type Session struct {
	// Fetch fetches, as politely as its caller wants. It must not retry what was posted.
	Fetch func(ctx context.Context, r fetch.Request) (*fetch.Response, error)
	Jar   http.CookieJar
	// Done, if not nil, is called after each step that succeeded.
	Done func(Answer)
}

// Answer is the outcome of a step.
type Answer struct {
	Step     int    // from 0
	URI      string // after redirects
	Status   int
	Sent     string // "" (the page was only read), get or post
	Encoding string // of the page
	Text     string // of the page, in UTF-8
}

// Run does all steps, and returns the last answer. An error names the step, by its line in the
// file, and has no value of a field.
func (s Session) Run(ctx context.Context, f *File) (Answer, error) {
	var last Answer
	for i := range f.Steps {
		answer, err := s.step(ctx, &f.Steps[i], last.URI)
		if err != nil {
			return last, fmt.Errorf("%s: %w", f.where(i), err)
		}
		answer.Step = i
		if last = answer; s.Done != nil {
			s.Done(answer)
		}
	}
	return last, nil
}

func (s Session) step(ctx context.Context, step *Step, before string) (Answer, error) {
	at := step.Page
	if before != "" {
		base, err := uri.Parse(before)
		if err != nil {
			return Answer{}, err
		}
		to, err := base.Resolve(step.Page)
		if err != nil {
			return Answer{}, fmt.Errorf("page %.200q: %w", step.Page, err)
		}
		at = to.String()
	}
	read, err := s.fetchPage(ctx, fetch.Request{URI: at})
	if err != nil {
		return Answer{}, err
	}
	check := func() error {
		return step.Check.holds(read.Text, read.URI, func(name string) bool { return s.hasCookie(read.URI, name) })
	}
	if step.posts {
		sent, err := step.submission(read)
		if errors.Is(err, errNoForm) && step.Check != (Check{}) && check() == nil {
			return read.Answer, nil // as after an earlier login
		}
		if err != nil {
			return Answer{}, fmt.Errorf("%s: %w", read.URI, err)
		}
		if read, err = s.fetchPage(ctx, request(sent, read.URI)); err != nil {
			return Answer{}, err
		}
		read.Sent = map[string]string{http.MethodGet: "get", http.MethodPost: "post"}[sent.Method]
	}
	if err := check(); err != nil {
		return Answer{}, fmt.Errorf("%s: check: %w", read.URI, err)
	}
	return read.Answer, nil
}

func (s Session) hasCookie(at, name string) bool {
	u, err := uri.Parse(at)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.Jar.Cookies(u.URL(false)), func(c *http.Cookie) bool { return c.Name == name })
}

// page is a page that was read.
type page struct {
	Answer
	query string // the encoding for queries of its forms
}

func (s Session) fetchPage(ctx context.Context, r fetch.Request) (page, error) {
	r.Jar, r.OwnBody, r.BodyLimit = s.Jar, true, pageLimit
	answer, err := s.Fetch(ctx, r)
	if err != nil {
		return page{}, err
	}
	body, err := io.ReadAll(answer.Body)
	if closed := answer.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return page{}, err
	}
	if failed := answer.Failure(); failed != nil {
		return page{}, failed
	}
	text := charset.Decode(body, answer.ContentType)
	return page{Answer{URI: answer.URI, Status: answer.Status, Encoding: text.Used, Text: string(text.Text)}, text.Query()}, nil
}

func (s *Step) submission(p page) (*Submission, error) {
	at, err := uri.Parse(p.URI)
	if err != nil {
		return nil, err
	}
	parsed, err := Parse([]byte(p.Text))
	if err != nil {
		return nil, err
	}
	form, err := pick(parsed.Forms, s.Form)
	if err != nil {
		return nil, err
	}
	for _, f := range s.fields {
		if err := form.Set(f.name, f.value); err != nil {
			return nil, fmt.Errorf("fields.%s (line %d): %w", f.name, f.line, err)
		}
	}
	sent, err := form.Submit(Sending{At: at, Base: parsed.Base, Charset: p.query, Encoding: s.Encoding, Submit: s.Submit, Extra: s.sending})
	if err == nil && sent.Method == http.MethodGet && form.hasPassword() { // the button may say so, whatever the form says
		return nil, fmt.Errorf("form %s sends its password as a part of a URI, where servers and proxies log it", form.label())
	}
	return sent, err
}

// request sends a form as a browser does, with its origin: sites that guard against forged requests
// check it.
func request(sent *Submission, from string) fetch.Request {
	r := fetch.Request{URI: sent.URI, Method: sent.Method, Body: sent.Body, Header: http.Header{}}
	page, err := uri.Parse(from)
	to, also := uri.Parse(sent.URI)
	if err != nil || also != nil {
		return r // fetch refuses it
	}
	r.Header.Set("Referer", page.Origin()+"/")
	if page.Origin() == to.Origin() {
		r.Header.Set("Referer", page.String())
	}
	if sent.Method == http.MethodPost {
		r.Header.Set("Content-Type", sent.ContentType)
		r.Header.Set("Origin", page.Origin())
	}
	return r
}
