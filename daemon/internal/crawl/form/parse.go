package form

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// Bounds of what is read from a page.
const (
	maxForms    = 1000
	maxControls = 20_000
	maxOptions  = 50_000
)

// Page has the forms of a page.
type Page struct {
	Base  string // its base element; "": none
	Forms []*Form
}

// Parse reads a page in UTF-8. Controls belong to the last form that is still open, wherever they
// are (as old pages have forms in tables), or to that of their form attribute.
func Parse(page []byte) (*Page, error) {
	p := &parser{z: html.NewTokenizer(bytes.NewReader(page)), page: &Page{}}
	for {
		switch p.z.Next() {
		case html.ErrorToken:
			if err := p.z.Err(); !errors.Is(err, io.EOF) {
				return nil, err
			}
			p.endOption()
			p.place()
			return p.page, nil
		case html.StartTagToken, html.SelfClosingTagToken:
			if err := p.start(); err != nil {
				return nil, err
			}
		case html.EndTagToken:
			p.end()
		case html.TextToken:
			p.text()
		}
	}
}

type parser struct {
	z         *html.Tokenizer
	page      *Page
	form      *Form // the open form
	fieldsets []fieldset
	hidden    int // number of open templates and datalists: nothing in them is sent
	sel       *Control
	group     bool // a disabled group of options
	option    *Option
	area      *Control
	areaBegun bool
	controls  int
	options   int
	all       []placed
}

// fieldset is an open fieldset. Controls in its first legend are enabled in any case.
type fieldset struct {
	disabled, inLegend, hadLegend bool
}

// placed is a control with the form to which it belongs.
type placed struct {
	c    *Control
	form *Form
	id   string // of its form attribute
	has  bool
}

type attributes map[string]string

func (a attributes) has(name string) bool { _, ok := a[name]; return ok }

func (p *parser) attributes(more bool) attributes {
	a := attributes{}
	for more {
		var key, value []byte
		key, value, more = p.z.TagAttr()
		if _, twice := a[string(key)]; !twice {
			a[string(key)] = string(value)
		}
	}
	return a
}

func (p *parser) start() error {
	name, more := p.z.TagName()
	switch tag := string(name); tag {
	case "template", "datalist":
		p.hidden++
	case "base":
		if a := p.attributes(more); p.page.Base == "" && p.hidden == 0 {
			p.page.Base = strings.TrimSpace(a["href"])
		}
	case "form":
		if p.form == nil && p.hidden == 0 { // a form within a form is ignored
			return p.startForm(p.attributes(more))
		}
	case "fieldset":
		p.fieldsets = append(p.fieldsets, fieldset{disabled: p.attributes(more).has("disabled")})
	case "legend":
		if n := len(p.fieldsets); n > 0 && !p.fieldsets[n-1].hadLegend {
			p.fieldsets[n-1].inLegend, p.fieldsets[n-1].hadLegend = true, true
		}
	case "optgroup":
		p.endOption()
		p.group = p.attributes(more).has("disabled")
	case "option":
		if p.endOption(); p.sel != nil {
			return p.startOption(p.attributes(more))
		}
	case "input", "button", "select", "textarea":
		if tag != "button" { // these end a select that is still open
			p.endSelect()
		}
		return p.control(tag, p.attributes(more))
	}
	return nil
}

func (p *parser) startForm(a attributes) error {
	if len(p.page.Forms) == maxForms {
		return fmt.Errorf("more than %d forms in the page", maxForms)
	}
	p.form = &Form{
		ID: a["id"], Name: a["name"], Index: len(p.page.Forms), Action: strings.TrimSpace(a["action"]), Method: method(a["method"]),
		Enctype: enctype(a["enctype"]), AcceptCharset: a["accept-charset"],
	}
	p.page.Forms = append(p.page.Forms, p.form)
	return nil
}

// method and enctype normalize an attribute as the standard does: unknown words mean the default.
func method(text string) string {
	if text = strings.ToLower(strings.TrimSpace(text)); text == "post" || text == "dialog" {
		return text
	}
	return "get"
}

const (
	urlencoded = "application/x-www-form-urlencoded"
	multipart  = "multipart/form-data"
	plainText  = "text/plain"
)

func enctype(text string) string {
	if text = strings.ToLower(strings.TrimSpace(text)); text == multipart || text == plainText {
		return text
	}
	return urlencoded
}

func (p *parser) control(tag string, a attributes) error {
	if p.hidden > 0 {
		return nil
	}
	if p.controls++; p.controls > maxControls {
		return fmt.Errorf("more than %d fields in the page", maxControls)
	}
	c := &Control{Tag: tag, Type: strings.ToLower(strings.TrimSpace(a["type"])), Name: a["name"], ID: a["id"], Value: a["value"], hasValue: a.has("value"),
		Checked: a.has("checked"), Disabled: a.has("disabled") || p.inDisabled(), Multiple: a.has("multiple")}
	switch {
	case tag == "select" || tag == "textarea":
		c.Type = tag
	case tag == "button" && c.Type != "reset" && c.Type != "button":
		c.Type = "submit"
	case tag == "input" && c.Type == "":
		c.Type = "text"
	}
	c.Size, _ = strconv.Atoi(a["size"])
	if c.isButton() {
		c.action = strings.TrimSpace(a["formaction"])
		if a.has("formmethod") {
			c.method = method(a["formmethod"])
		}
		if a.has("formenctype") {
			c.enctype = enctype(a["formenctype"])
		}
	}
	switch tag {
	case "select":
		p.sel = c
	case "textarea":
		p.area, p.areaBegun = c, true
	}
	p.all = append(p.all, placed{c, p.form, a["form"], a.has("form")})
	return nil
}

func (p *parser) inDisabled() bool {
	return slices.ContainsFunc(p.fieldsets, func(f fieldset) bool { return f.disabled && !f.inLegend })
}

func (p *parser) startOption(a attributes) error {
	if p.options++; p.options > maxOptions {
		return fmt.Errorf("more than %d options in the page", maxOptions)
	}
	p.option = &Option{Value: a["value"], Selected: a.has("selected"), Disabled: a.has("disabled") || p.group}
	p.option.byText = !a.has("value")
	p.sel.Options = append(p.sel.Options, p.option)
	return nil
}

func (p *parser) endOption() {
	if p.option == nil {
		return
	}
	p.option.Text = strings.Join(strings.Fields(p.option.Text), " ")
	if p.option.byText {
		p.option.Value = p.option.Text
	}
	p.option = nil
}

func (p *parser) endSelect() {
	p.endOption()
	p.sel, p.group = nil, false
}

func (p *parser) end() {
	name, _ := p.z.TagName()
	switch string(name) {
	case "form":
		if p.hidden == 0 {
			p.form = nil
		}
	case "template", "datalist":
		p.hidden = max(0, p.hidden-1)
	case "fieldset":
		p.fieldsets = p.fieldsets[:max(0, len(p.fieldsets)-1)]
	case "legend":
		if n := len(p.fieldsets); n > 0 {
			p.fieldsets[n-1].inLegend = false
		}
	case "option":
		p.endOption()
	case "optgroup":
		p.endOption()
		p.group = false
	case "select":
		p.endSelect()
	case "textarea":
		p.area = nil
	}
}

func (p *parser) text() {
	switch {
	case p.area != nil:
		text := string(p.z.Text())
		if p.areaBegun { // one line end after the tag is not part of the text
			text = strings.TrimPrefix(strings.TrimPrefix(text, "\r"), "\n")
		}
		p.areaBegun = false
		p.area.Value += text
	case p.option != nil:
		p.option.Text += string(p.z.Text())
	}
}

// place assigns each control to its form, in page order.
func (p *parser) place() {
	byID := map[string]*Form{}
	for _, f := range p.page.Forms {
		if byID[f.ID] == nil {
			byID[f.ID] = f
		}
	}
	for _, at := range p.all {
		form := at.form
		if at.has {
			if form = byID[at.id]; at.id == "" {
				form = nil
			}
		}
		if form != nil {
			form.Controls = append(form.Controls, at.c)
		}
	}
}
