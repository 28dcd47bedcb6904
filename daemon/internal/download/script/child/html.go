package child

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/andybalholm/cascadia"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"golang.org/x/net/html"
)

// parsed is the last parsed document: code often selects from the same text many times.
type parsed struct {
	text string
	root *html.Node
}

func (r *run) html() value {
	return &starlarkstruct.Module{Name: "html", Members: starlark.StringDict{"select": starlark.NewBuiltin("html.select", r.choose)}}
}

// choose is html.select(source, css): the elements of a text, a page or an element that match.
func (r *run) choose(_ thread, b builtin, args tuple, kwargs []tuple) (value, error) {
	var source value
	var css string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "source", &source, "css", &css); err != nil {
		return nil, err
	}
	switch s := source.(type) {
	case *element:
		return matching(s.node, css)
	case *page:
		return r.matchingText(s.unicode(), css)
	case starlark.String:
		return r.matchingText(string(s), css)
	}
	return nil, fmt.Errorf("html.select: source: got %s, want a text, a page or an element", source.Type())
}

func (r *run) matchingText(text, css string) (value, error) {
	if _, err := r.doc.parse(text); err != nil {
		return nil, err
	}
	return matching(r.doc.root, css)
}

// parse parses a text, unless it was the last one, and reports whether it did.
func (p *parsed) parse(text string) (fresh bool, err error) {
	if p.root != nil && p.text == text {
		return false, nil
	}
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return false, fmt.Errorf("html.select: %w", err)
	}
	*p = parsed{text, root}
	return true, nil
}

// matching returns the matching elements below a node, in document order.
func matching(below *html.Node, css string) (value, error) {
	nodes, err := query(below, css)
	if err != nil {
		return nil, err
	}
	var found []value
	for _, node := range nodes {
		found = append(found, &element{node})
	}
	return starlark.NewList(found), nil
}

func query(below *html.Node, css string) ([]*html.Node, error) {
	selector, err := cascadia.ParseGroup(css)
	if err != nil {
		return nil, fmt.Errorf("html.select: css %q: %w", css, err)
	}
	return cascadia.QueryAll(below, selector), nil
}

// element is an element of a document. Its members are name, text, html, attrs and select(css).
type element struct{ node *html.Node }

var elementMembers = []string{"attrs", "html", "name", "select", "text"}

func (e *element) String() string        { return "<" + e.node.Data + ">" }
func (e *element) Type() string          { return "element" }
func (e *element) Freeze()               {}
func (e *element) Truth() starlark.Bool  { return true }
func (e *element) Hash() (uint32, error) { return hash(e) }
func (e *element) AttrNames() []string   { return slices.Clone(elementMembers) }

func (e *element) Attr(name string) (starlark.Value, error) {
	switch name {
	case "name":
		return starlark.String(e.node.Data), nil
	case "text":
		return starlark.String(visible(e.node)), nil
	case "html":
		var text strings.Builder
		if err := html.Render(&text, e.node); err != nil {
			return nil, errors.New("html: " + err.Error())
		}
		return starlark.String(text.String()), nil
	case "attrs":
		d := starlark.NewDict(len(e.node.Attr))
		for _, a := range e.node.Attr {
			if err := d.SetKey(starlark.String(a.Key), starlark.String(a.Val)); err != nil {
				return nil, err
			}
		}
		return d, nil
	case "select":
		return starlark.NewBuiltin("select", func(_ thread, b builtin, args tuple, kwargs []tuple) (value, error) {
			var css string
			if err := starlark.UnpackArgs(b.Name(), args, kwargs, "css", &css); err != nil {
				return nil, err
			}
			return matching(e.node, css)
		}), nil
	}
	return nil, nil
}

// visible is the text below a node, except for scripts and styles, with runs of white space as one blank.
func visible(node *html.Node) string {
	var text strings.Builder
	for n := range node.Descendants() {
		if n.Type == html.TextNode && (n.Parent == nil || n.Parent.Data != "script" && n.Parent.Data != "style") {
			text.WriteString(n.Data)
		}
	}
	return strings.Join(strings.Fields(text.String()), " ")
}
