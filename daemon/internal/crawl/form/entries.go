package form

import (
	"fmt"
	"slices"
	"strings"
)

// entry is a name with a value or a file, as it is sent.
type entry struct {
	name, value string
	upload      *Upload
}

// Set gives a field its values, as a user would: a text replaces the old one, a box is checked, an
// option is chosen by its value or by its text. The error lists what exists instead.
func (f *Form) Set(name string, v Value) error {
	var all []*Control
	for _, c := range f.Controls {
		if c.Name == name && !c.isButton() {
			all = append(all, c)
		}
	}
	enabled := slices.DeleteFunc(slices.Clone(all), func(c *Control) bool { return c.Disabled })
	switch {
	case len(all) == 0:
		return fmt.Errorf("the form has no field of that name; it has %s; what a script adds goes under extra", f.names())
	case len(enabled) == 0:
		return fmt.Errorf("the field is disabled, so that nothing of it is sent; a value that a script would set goes under extra")
	}
	switch first := enabled[0]; first.Type {
	case "checkbox", "radio":
		return check(enabled, v)
	case "select":
		return choose(first, v)
	case "file":
		if len(v.Uploads) == 0 && len(v.Texts) > 0 {
			return fmt.Errorf("the field takes files: want {upload: PATH}")
		}
		first.uploads = v.Uploads
		return nil
	}
	switch {
	case v.Checked != nil || len(v.Uploads) > 0:
		return fmt.Errorf("the field takes a text")
	case len(v.Texts) > len(enabled):
		return fmt.Errorf("%d texts for %d fields of that name", len(v.Texts), len(enabled))
	}
	for i, text := range v.Texts {
		if enabled[i].Tag == "input" && enabled[i].Type != "hidden" { // they have one line
			text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
		}
		enabled[i].Value = text
	}
	return nil
}

// check checks boxes, or one of a group of radio buttons.
func check(all []*Control, v Value) error {
	radio := all[0].Type == "radio"
	values := []string{}
	for _, c := range all {
		values = append(values, c.boxValue())
	}
	switch {
	case len(v.Uploads) > 0:
		return fmt.Errorf("the field takes no file")
	case v.Checked != nil && (radio || len(all) > 1):
		return fmt.Errorf("want values of %q", values)
	case v.Checked != nil:
		all[0].Checked = *v.Checked
		return nil
	case radio && len(v.Texts) != 1:
		return fmt.Errorf("want one of %q", values)
	}
	for _, text := range v.Texts {
		if !slices.Contains(values, text) {
			return fmt.Errorf("there is no such value: want one of %q", values)
		}
	}
	for i, c := range all {
		c.Checked = slices.Contains(v.Texts, values[i])
	}
	return nil
}

func (c *Control) boxValue() string {
	if c.hasValue {
		return c.Value
	}
	return "on"
}

// choose selects options.
func choose(c *Control, v Value) error {
	if v.Checked != nil || len(v.Uploads) > 0 || !c.Multiple && len(v.Texts) != 1 {
		return fmt.Errorf("want one of %s", c.choices())
	}
	var chosen []*Option
	for _, text := range v.Texts {
		option := c.option(text)
		if option == nil {
			return fmt.Errorf("there is no such option: want one of %s", c.choices())
		}
		chosen = append(chosen, option)
	}
	for _, o := range c.Options {
		o.Selected = slices.Contains(chosen, o)
	}
	return nil
}

func (c *Control) option(text string) *Option {
	for _, of := range []func(*Option) string{func(o *Option) string { return o.Value }, func(o *Option) string { return o.Text }} {
		if i := slices.IndexFunc(c.Options, func(o *Option) bool { return of(o) == text && !o.Disabled }); i >= 0 {
			return c.Options[i]
		}
	}
	return nil
}

func (c *Control) choices() string {
	var all []string
	for _, o := range c.Options {
		if all = append(all, fmt.Sprintf("%q", o.Value)); len(all) == 50 {
			return strings.Join(all, ", ") + ", ..."
		}
	}
	return strings.Join(all, ", ")
}

// button returns the button to press: the one with the name or value, or the first that submits;
// nil: there is none, and the form is sent without. An image is pressed only if it is named.
func (f *Form) button(name string) (*Control, error) {
	var names []string
	for _, c := range f.Controls {
		if !c.isSubmit() && (c.Type != "image" || c.Tag != "input") || c.Disabled {
			continue
		}
		if name == "" && c.isSubmit() || name != "" && (c.Name == name || c.ID == name || c.Value == name) {
			return c, nil
		}
		names = append(names, fmt.Sprintf("name: %q, id: %q, value: %q", c.Name, c.ID, c.Value))
	}
	if name == "" {
		return nil, nil
	}
	return nil, fmt.Errorf("the form has no such button that can be pressed; there are {%s}", strings.Join(names, "}, {"))
}

// entries are what the form sends when pressed is pressed ("constructing the entry list" of the
// standard), in page order. Line ends are CR LF; charset is the value of a hidden field _charset_.
func (f *Form) entries(pressed *Control, charset string) []entry {
	var all []entry
	for _, c := range f.Controls {
		if c.Disabled || c.isButton() && c != pressed {
			continue
		}
		if c.Type == "image" && c.Tag == "input" {
			dot := ""
			if c.Name != "" {
				dot = "."
			}
			all = append(all, entry{name: c.Name + dot + "x", value: "0"}, entry{name: c.Name + dot + "y", value: "0"})
			continue
		}
		if c.Name != "" {
			all = append(all, c.entries(charset)...)
		}
	}
	for i := range all {
		all[i].name, all[i].value = lineEnds(all[i].name), lineEnds(all[i].value)
	}
	return all
}

func (c *Control) entries(charset string) []entry {
	var all []entry
	switch c.Type {
	case "select":
		for _, o := range c.selected() {
			all = append(all, entry{name: c.Name, value: o.Value})
		}
	case "checkbox", "radio":
		if c.Checked {
			all = append(all, entry{name: c.Name, value: c.boxValue()})
		}
	case "file":
		for i := range c.uploads {
			all = append(all, entry{name: c.Name, upload: &c.uploads[i]})
		}
		if len(all) == 0 { // as if an empty file without a name were chosen
			all = append(all, entry{name: c.Name, upload: &Upload{Type: "application/octet-stream"}})
		}
	case "hidden":
		if strings.EqualFold(c.Name, "_charset_") && !c.hasValue {
			return []entry{{name: c.Name, value: charset}}
		}
		all = append(all, entry{name: c.Name, value: c.Value})
	default:
		all = append(all, entry{name: c.Name, value: c.Value})
	}
	return all
}

// selected returns the chosen options. A one-line list without a choice has its first option.
func (c *Control) selected() []*Option {
	var all []*Option
	for _, o := range c.Options {
		if o.Selected && !o.Disabled {
			all = append(all, o)
		}
	}
	if c.Multiple || len(all) == 1 {
		return all
	}
	if len(all) > 1 {
		return all[len(all)-1:]
	}
	marked := slices.ContainsFunc(c.Options, func(o *Option) bool { return o.Selected })
	if i := slices.IndexFunc(c.Options, func(o *Option) bool { return !o.Disabled }); c.Size <= 1 && i >= 0 && !marked {
		return c.Options[i : i+1]
	}
	return nil
}

// lineEnds makes each CR LF, CR and LF a CR LF.
func lineEnds(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.ReplaceAll(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n", "\r\n")
}
