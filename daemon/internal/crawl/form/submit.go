package form

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// Submission is a form as it is sent.
type Submission struct {
	Method, URI string
	ContentType string // "": there is no body
	Body        []byte
}

// Sending says how a form is sent.
type Sending struct {
	At       *uri.URI // the page
	Base     string   // its base element, "" if it has none
	Charset  string   // the encoding of the page, by its name in the standard
	Encoding string   // overrides that of the form; "": as the form says
	Submit   string   // the button to press, by name, id or value; "": the first
	Extra    []Extra  // fields that the form does not have
}

// Extra is a field that a script of the page would add.
type Extra struct {
	Name  string
	Texts []string
}

// Submit returns what a browser sends for the form.
func (f *Form) Submit(s Sending) (*Submission, error) {
	pressed, err := f.button(s.Submit)
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	action, method, enctype := f.Action, f.Method, f.Enctype
	if pressed != nil {
		action, method, enctype = cmp.Or(pressed.action, action), cmp.Or(pressed.method, method), cmp.Or(pressed.enctype, enctype)
	}
	if method == "dialog" {
		return nil, fmt.Errorf("form %s: it is closed by a script, and not sent", f.label())
	}
	to, err := target(s, action)
	if err != nil {
		return nil, fmt.Errorf("form %s: its action: %w", f.label(), err)
	}
	if s.At.Scheme == "https" && to.Scheme == "http" {
		return nil, fmt.Errorf("form %s: the page is encrypted, what it sends to %s would not be", f.label(), to.Origin())
	}
	labels := f.AcceptCharset
	if s.Encoding != "" {
		labels = s.Encoding
	}
	c := codecOf(labels, s.Charset)
	all := f.entries(pressed, c.name)
	for _, extra := range s.Extra {
		for _, text := range extra.Texts {
			all = append(all, entry{name: lineEnds(extra.Name), value: lineEnds(text)})
		}
	}
	if method == "get" {
		before, _, _ := strings.Cut(to.String(), "?")
		return &Submission{Method: http.MethodGet, URI: before + "?" + string(c.urlencode(all))}, nil
	}
	sent := &Submission{Method: http.MethodPost, URI: to.String(), ContentType: enctype}
	switch enctype {
	case multipart:
		sent.ContentType, sent.Body = c.multipart(all)
	case plainText:
		sent.Body = c.plain(all)
	default:
		sent.Body = c.urlencode(all)
	}
	return sent, nil
}

// target is the URI to which a form goes: without an action it is the page, whatever the base is.
func target(s Sending, action string) (*uri.URI, error) {
	if action == "" {
		return s.At, nil
	}
	base := s.At
	if s.Base != "" {
		if b, err := s.At.Resolve(s.Base); err == nil {
			base = b
		}
	}
	return base.Resolve(action)
}
