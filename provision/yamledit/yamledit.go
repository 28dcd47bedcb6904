// Package yamledit changes single keys in the text of a YAML file and leaves every other
// line as it is, comments and blank lines too: files on a host belong to its
// administrators as much as to the toolkit. It knows no schema.
package yamledit

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs/strict"
)

// Edit is one key and the value that it should have.
type Edit struct {
	// Key is the whole key: redis.addrs is addrs in the section redis.
	Key string
	// Value is the value that it should have; nil removes the key.
	Value *yaml.Node
}

// Leaf is a key that has a value of its own: a text, a number, a list, but not a section.
type Leaf struct {
	Key   string
	Value *yaml.Node
	Line  int
}

// Parse returns the root of a file that contains one map, nil if the file is empty. Errors
// name file and line.
func Parse(file, text string) (*yaml.Node, error) {
	root, err := strict.Parse(file, []byte(text))
	if root == nil || err != nil {
		return nil, err
	}
	switch {
	case isNull(root):
		return nil, nil
	case root.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("%s:%d: want keys and values", file, root.Line)
	}
	budget := maxValues
	if at := odd(root, &budget); budget < 0 {
		return nil, fmt.Errorf("%s: too large, or an anchor is used within itself", file)
	} else if at != nil {
		return nil, fmt.Errorf("%s:%d: a key that is no word", file, at.Line)
	}
	return root, nil
}

// maxValues is how many values a file may have; those that anchors repeat count each time.
const maxValues = 100_000

// odd finds a key that is not a text. It stops when the budget is used up.
func odd(n *yaml.Node, budget *int) *yaml.Node {
	if *budget--; *budget < 0 {
		return nil
	}
	n = resolve(n)
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && (child.Kind != yaml.ScalarNode || child.Value == "" || child.ShortTag() == "!!merge") {
			return child
		}
		if at := odd(child, budget); at != nil || *budget < 0 {
			return at
		}
	}
	return nil
}

// Leaves lists the keys under root in their order. Sections without keys are left out.
func Leaves(root *yaml.Node) []Leaf {
	if root == nil {
		return nil
	}
	return leaves(root, "")
}

func leaves(section *yaml.Node, path string) []Leaf {
	var all []Leaf
	for i := 0; i+1 < len(section.Content); i += 2 {
		key, value := section.Content[i], section.Content[i+1]
		full := key.Value
		if path != "" {
			full = path + "." + key.Value
		}
		switch target := resolve(value); {
		case isNull(target):
		case target.Kind == yaml.MappingNode:
			all = append(all, leaves(target, full)...)
		default:
			all = append(all, Leaf{full, target, key.Line})
		}
	}
	return all
}

// Apply makes the edits in text. It leaves everything else exactly as it is, and refuses a
// text in which that is impossible.
func Apply(file, text string, edits []Edit) (string, error) {
	before, err := Parse(file, text)
	if err != nil {
		return "", err
	}
	edited := map[string]bool{}
	for _, e := range edits {
		edited[e.Key] = true
		if text, err = apply(file, text, e); err != nil {
			return "", err
		}
	}
	after, err := Parse(file, text)
	if err != nil {
		return "", fmt.Errorf("%s: cannot be edited key by key: %w", file, err)
	}
	return text, verify(file, Leaves(before), Leaves(after), edits, edited)
}

// verify makes sure that an edit did what it should, and no more.
func verify(file string, before, after []Leaf, edits []Edit, edited map[string]bool) error {
	left := map[string]*yaml.Node{}
	for _, l := range after {
		left[l.Key] = l.Value
	}
	for _, l := range before {
		if !edited[l.Key] && !Equal(l.Value, left[l.Key]) {
			return fmt.Errorf("%s:%d: %s: would be changed by an edit of other keys; write the file in plain lines, without anchors", file, l.Line, l.Key)
		}
	}
	for _, e := range edits {
		if got := left[e.Key]; e.Value == nil && got != nil || e.Value != nil && !Equal(got, e.Value) {
			return fmt.Errorf("%s: %s: cannot be set; write the file in plain lines, without anchors", file, e.Key)
		}
	}
	return nil
}

// Equal reports whether two values are the same, whatever their layout.
func Equal(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	a, b = resolve(a), resolve(b)
	if a.Kind != b.Kind || len(a.Content) != len(b.Content) || a.ShortTag() != b.ShortTag() || a.Value != b.Value {
		return false
	}
	for i := range a.Content {
		if !Equal(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}

// Plain returns a copy of a value without comments, anchors and positions.
func Plain(n *yaml.Node) *yaml.Node {
	n = resolve(n)
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value}
	for _, child := range n.Content {
		c.Content = append(c.Content, Plain(child))
	}
	return c
}

// Value returns the node of a text, number, list or map of Go.
func Value(v any) (*yaml.Node, error) {
	data, err := yaml.Dump(v, yaml.WithV3Defaults())
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Load(bytes.TrimSpace(data), &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 1 {
		return doc.Content[0], nil
	}
	return &doc, nil
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
