package page

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// Action is what a caller with Scope may do. GET of its path shows what would happen and asks for consent, and POST does
// it, by a call of the API.
type Action struct {
	Path  string // a pattern of net/http without a method; {name} is what it acts on
	Scope string
	// Text is the key of its texts: Text+".do" is the button, Text+".what" says with the name what will happen, and
	// "done."+Text that it has.
	Text   string
	Danger bool // what it does cannot be undone
	Fields []Field
	// Call returns the call of the API; body is JSON, nil for none.
	Call func(name string, form url.Values) (method, path string, body any)
	Back func(name string) string // the page to go to afterwards
}

// Field is an input of an action.
type Field struct {
	Name    string   // of the input; its label has the key "field."+Name
	Value   string   // at first
	Options []string // to choose from; nil: a line of text
	Number  bool
	Needed  bool
}

// Consent is what the page of an action shows.
type Consent struct {
	Action
	Name  string
	Value url.Values // what was sent, if that was refused
}

// Of is the value of a field.
func (c Consent) Of(f Field) string {
	if c.Value.Has(f.Name) {
		return c.Value.Get(f.Name)
	}
	return f.Value
}

// Cancel is the page that the caller came from.
func (c Consent) Cancel() string { return c.Back(c.Name) }

// Act adds an action. It panics if one of its texts is missing.
func (s *Site) Act(a Action) {
	keys := []string{a.Text + ".do", a.Text + ".what", "done." + a.Text}
	for _, f := range a.Fields {
		keys = append(keys, "field."+f.Name)
	}
	for _, key := range keys {
		if _, known := s.Texts[key]; !known {
			panic("there is no text " + key)
		}
	}
	s.handle("GET "+a.Path, a.Scope, func(v *View) error {
		v.Data = Consent{Action: a, Name: v.Request.PathValue("name")}
		return v.show(http.StatusOK, "consent")
	})
	s.handle("POST "+a.Path, a.Scope, func(v *View) error {
		form, err := v.form()
		if err != nil {
			return err
		}
		name := v.Request.PathValue("name")
		method, path, body := a.Call(name, form)
		status, text := v.call(method, path, body)
		if status < 300 {
			s.Changed()
			to := a.Back(name)
			return v.to(to + "?done=" + a.Text)
		}
		var p struct{ Title, Detail string }
		if json.Unmarshal(text, &p) != nil {
			p.Title = http.StatusText(status)
		}
		v.Status, v.Title, v.Detail, v.Data = status, p.Title, p.Detail, Consent{a, name, form}
		return v.show(status, "consent")
	})
}

// form reads what a form has sent.
func (v *View) form() (url.Values, error) {
	v.Request.Body = http.MaxBytesReader(v.w, v.Request.Body, formBytes)
	if err := v.Request.ParseForm(); err != nil {
		return nil, &problemdetail.Error{Code: problemdetail.InvalidParameter, Detail: err.Error()}
	}
	return v.Request.PostForm, nil
}

// call calls the API in the name of the caller.
func (v *View) call(method, path string, body any) (status int, text []byte) {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return http.StatusBadRequest, nil
		}
	}
	from := v.Request
	r, err := http.NewRequestWithContext(from.Context(), method, path, bytes.NewReader(sent))
	if err != nil {
		return http.StatusBadRequest, nil
	}
	r.Host, r.RemoteAddr, r.TLS, r.Proto, r.ProtoMajor, r.ProtoMinor = from.Host, from.RemoteAddr, from.TLS, from.Proto, from.ProtoMajor, from.ProtoMinor
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if v.secret != "" {
		r.Header.Set("Authorization", "Bearer "+v.secret)
	}
	w := &answer{header: http.Header{}, status: http.StatusOK}
	v.site.API.ServeHTTP(w, r)
	return w.status, w.body.Bytes()
}

// answer is an answer of the API, in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// Escaped is a name as a part of a path.
func Escaped(name string) string { return strings.ReplaceAll(url.PathEscape(name), "+", "%2B") }
