package yamledit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// pair is a key with its value.
type pair struct {
	key, value *yaml.Node
}

// find follows the path as far as its keys exist.
func find(root *yaml.Node, path []string) []pair {
	var found []pair
	for section := root; section != nil && len(found) < len(path); {
		i := -1
		for k := 0; k+1 < len(section.Content); k += 2 {
			if section.Content[k].Value == path[len(found)] {
				i = k
				break
			}
		}
		if i < 0 {
			break
		}
		p := pair{section.Content[i], section.Content[i+1]}
		found = append(found, p)
		section = nil
		if p.value.Kind == yaml.MappingNode {
			section = p.value
		}
	}
	return found
}

func apply(file, text string, e Edit) (string, error) {
	root, err := Parse(file, text)
	if err != nil {
		return "", err
	}
	path := strings.Split(e.Key, ".")
	if root == nil {
		if e.Value == nil {
			return text, nil
		}
		return insert(text, len(lines(text)), render(path, e.Value, 0)), nil
	}
	found := find(root, path)
	last := pair{value: root}
	if len(found) > 0 {
		last = found[len(found)-1]
	}
	whole := len(found) == len(path)
	switch {
	case whole && e.Value != nil && Equal(last.value, e.Value), !whole && e.Value == nil:
		return text, nil
	case !whole && last.value.Kind != yaml.MappingNode && !isNull(last.value):
		return "", fmt.Errorf("%s:%d: %s: want keys and values", file, last.key.Line, strings.Join(path[:len(found)], "."))
	}
	// A section in braces is rewritten as lines, starting with the outermost one.
	for i, p := range found[:min(len(found), len(path)-1)] {
		if p.value.Kind == yaml.MappingNode && p.value.Style&yaml.FlowStyle != 0 {
			return replace(text, root, p, render(path[i:i+1], changed(p.value, path[i+1:], e.Value), p.key.Column-1)), nil
		}
	}
	if root.Style&yaml.FlowStyle != 0 {
		return "", fmt.Errorf("%s:%d: the file is one map in braces: write it in lines", file, root.Line)
	}
	switch {
	case whole && e.Value == nil:
		return replace(text, root, last, nil), nil
	case whole:
		return replace(text, root, last, keepComment(last, render(path[len(path)-1:], e.Value, last.key.Column-1))), nil
	case isNull(last.value):
		return insert(text, last.key.Line, render(path[len(found):], e.Value, last.key.Column+1)), nil
	}
	end := pair{last.value.Content[len(last.value.Content)-2], last.value.Content[len(last.value.Content)-1]}
	return insert(text, lastLine(text, root, end), render(path[len(found):], e.Value, end.key.Column-1)), nil
}

// changed returns a copy of a section in which the key at path has a value; nil removes the key.
func changed(section *yaml.Node, path []string, value *yaml.Node) *yaml.Node {
	c := Plain(section)
	c.Style &^= yaml.FlowStyle
	for i := 0; i+1 < len(c.Content); i += 2 {
		if c.Content[i].Value != path[0] {
			continue
		}
		switch {
		case len(path) > 1 && c.Content[i+1].Kind == yaml.MappingNode:
			c.Content[i+1] = changed(c.Content[i+1], path[1:], value)
		case value == nil:
			c.Content = slices.Delete(c.Content, i, i+2)
		default:
			c.Content[i+1] = nested(path[1:], value)
		}
		return c
	}
	if value != nil {
		c.Content = append(c.Content, scalar(path[0]), nested(path[1:], value))
	}
	return c
}

// nested wraps a value in the sections of a path.
func nested(path []string, value *yaml.Node) *yaml.Node {
	value = Plain(value)
	for _, key := range slices.Backward(path) {
		value = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar(key), value}}
	}
	return value
}

func scalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// render writes a value under its key as lines, indented by blanks.
func render(path []string, value *yaml.Node, indent int) []string {
	if len(value.Content) == 0 && value.Kind == yaml.MappingNode && len(path) == 1 {
		return []string{strings.Repeat(" ", indent) + path[0] + ":\n"}
	}
	data, err := yaml.Dump(nested(path, value), yaml.WithV3Defaults(), yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return nil // Apply finds that the key does not exist
	}
	all := lines(string(data))
	for i, line := range all {
		if strings.TrimSpace(line) != "" {
			all[i] = strings.Repeat(" ", indent) + line
		}
	}
	return all
}

// keepComment puts the comment that follows the old value after the new one.
func keepComment(p pair, rendered []string) []string {
	comment := cmp.Or(p.value.LineComment, p.key.LineComment)
	if comment != "" && len(rendered) == 1 && p.value.Line == p.key.Line {
		rendered[0] = strings.TrimSuffix(rendered[0], "\n") + "  " + comment + "\n"
	}
	return rendered
}

// replace replaces the lines of a pair with others.
func replace(text string, root *yaml.Node, p pair, with []string) string {
	all := lines(text)
	return strings.Join(slices.Replace(all, p.key.Line-1, lastLine(text, root, p), with...), "")
}

// insert inserts lines after line number after, which counts from 1.
func insert(text string, after int, what []string) string {
	all := lines(text)
	if after > 0 && !strings.HasSuffix(all[after-1], "\n") {
		all[after-1] += "\n"
	}
	return strings.Join(slices.Insert(all, after, what...), "")
}

// lastLine returns the number of the last line of a pair. Comments and blank lines after it
// belong to what follows.
func lastLine(text string, root *yaml.Node, p pair) int {
	all := lines(text)
	end := len(all)
	if next := nextLine(root, p); next > 0 {
		end = next - 1
	}
	block := p.value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	for end > p.key.Line {
		line := strings.TrimSpace(all[end-1])
		indented := len(all[end-1])-len(strings.TrimLeft(all[end-1], " ")) >= p.key.Column
		comment := strings.HasPrefix(line, "#") && (!block || !indented)
		if line != "" && !comment && line != "..." && line != "---" {
			break
		}
		end--
	}
	return end
}

// nextLine returns the line of the first node after a pair, 0 if there is none.
func nextLine(n *yaml.Node, p pair) int {
	least := 0
	for _, child := range n.Content {
		if child == p.key || child == p.value {
			continue
		}
		line := child.Line
		if line <= p.key.Line {
			line = nextLine(child, p)
		}
		if line > 0 && (least == 0 || line < least) {
			least = line
		}
	}
	return least
}

// lines splits a text after each line end.
func lines(text string) []string { return slices.Collect(strings.Lines(text)) }
