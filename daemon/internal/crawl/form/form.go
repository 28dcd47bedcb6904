// Package form fills in and sends the forms of pages as browsers do (the HTML standard, "form
// submission"), also on pages in GBK and other encodings, to log in to a site or to change a text
// there. The steps are in a file that people write. The package runs no scripts, and fetches
// through its caller, whose limits hold.
package form

import (
	"fmt"
	"slices"
	"strings"
)

// Form is a form of a page, as the page has it.
type Form struct {
	ID, Name      string
	Index         int    // of the page, from 0
	Action        string // as written there
	Method        string // get, post or dialog
	Enctype       string
	AcceptCharset string
	Controls      []*Control // in page order
}

// Control is a field or a button of a form.
type Control struct {
	Tag      string // input, select, textarea or button
	Type     string // of an input or a button, in lower case; a select has select, a textarea textarea
	Name     string
	ID       string
	Value    string
	hasValue bool
	Checked  bool
	Disabled bool
	Multiple bool
	Size     int // lines that a select shows
	Options  []*Option

	action, method, enctype string // of a button; they override those of the form
	uploads                 []Upload
}

// Option is an option of a select.
type Option struct {
	Value, Text        string
	Selected, Disabled bool
	byText             bool // its value is its text
}

// Upload is a file that is sent.
type Upload struct {
	Name, Type string
	Bytes      []byte
}

func (c *Control) isSubmit() bool {
	return c.Type == "submit" && (c.Tag == "input" || c.Tag == "button")
}

func (c *Control) isButton() bool {
	return c.Tag == "button" || slices.Contains([]string{"submit", "image", "reset", "button"}, c.Type) && c.Tag == "input"
}

// hasPassword reports whether the form asks for a password.
func (f *Form) hasPassword() bool {
	return slices.ContainsFunc(f.Controls, func(c *Control) bool { return c.Type == "password" })
}

// names lists the names of its fields, for people.
func (f *Form) names() string {
	var names []string
	for _, c := range f.Controls {
		if c.Name != "" && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// label says which form it is, for people.
func (f *Form) label() string {
	text := fmt.Sprintf("index %d", f.Index)
	if f.ID != "" {
		text += fmt.Sprintf(", id %q", f.ID)
	}
	if f.Name != "" {
		text += fmt.Sprintf(", name %q", f.Name)
	}
	if f.Action != "" {
		text += fmt.Sprintf(", action %.100q", f.Action)
	}
	return text
}

// Which says which form of a page is meant. Empty fields match any form.
type Which struct {
	ID     string `yaml:"id"`
	Name   string `yaml:"name"`
	Action string `yaml:"action"` // the end of its action as written in the page, without the query
	Index  int    `yaml:"index"`  // from 1; 0: any
}

// pick returns the form that is meant; if w is empty, the only one, or the only one with a password.
func pick(forms []*Form, w Which) (*Form, error) {
	fit := slices.DeleteFunc(slices.Clone(forms), func(f *Form) bool {
		action, _, _ := strings.Cut(f.Action, "?")
		return w.ID != "" && f.ID != w.ID || w.Name != "" && f.Name != w.Name || w.Index != 0 && f.Index != w.Index-1 ||
			w.Action != "" && !strings.HasSuffix(action, w.Action)
	})
	if len(fit) > 1 && w == (Which{}) {
		if asking := slices.DeleteFunc(slices.Clone(fit), func(f *Form) bool { return !f.hasPassword() }); len(asking) == 1 {
			return asking[0], nil
		}
	}
	if len(fit) == 1 {
		return fit[0], nil
	}
	var there []string
	for _, f := range forms {
		there = append(there, fmt.Sprintf("index: %d, id: %q, name: %q, action: %.100q", f.Index+1, f.ID, f.Name, f.Action))
	}
	switch {
	case len(forms) == 0:
		return nil, fmt.Errorf("%w in the page: it may be made by a script, which is not run here", errNoForm)
	case len(fit) == 0:
		return nil, fmt.Errorf("%w of the page is meant by form; there are {%s}", errNoForm, strings.Join(there, "}, {"))
	}
	return nil, fmt.Errorf("%d forms of the page may be meant; say which by form: {%s}", len(fit), strings.Join(there, "}, {"))
}
