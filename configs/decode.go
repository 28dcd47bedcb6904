package configs

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// decoder fills structs from a YAML document by their yaml tags. It differs from
// the decoder of the YAML library in what it refuses (keys that are not there or
// twice, values that are not there, documents after the first) and in naming the
// file, the line and the whole key of every fault. It never prints a value that is
// meant for a text field, which may be a secret.
type decoder struct {
	file   string
	faults []error
}

// decodeYAML fills what into points at; keys that data leaves out keep their
// values. The error joins all faults.
func decodeYAML(file string, data []byte, into any) error {
	root, err := parseYAML(file, data)
	if root == nil || err != nil {
		return err
	}
	d := &decoder{file: file}
	d.value(root, reflect.ValueOf(into).Elem(), "")
	return errors.Join(d.faults...)
}

// Decode fills what into points at from the YAML of data, in the way of the settings:
// by yaml tags, strict, each fault with file, line and key. Keys that data leaves out
// keep their values. Beside the types of settings it knows *yaml.Node, which takes what
// is there as it is, and the tag ",inline".
func Decode(file string, data []byte, into any) error { return decodeYAML(file, data, into) }

// CheckKeys tells whether n, which is part of a file under key, would do as settings of
// the daemon: whether it has their keys, with values of their types. What the values
// mean together is for Validate.
func CheckKeys(file, key string, n *yaml.Node) error {
	c := Default()
	d := &decoder{file: file}
	d.value(n, reflect.ValueOf(&c).Elem(), key)
	return errors.Join(d.faults...)
}

// parseYAML returns the root of the only document, nil if there is none.
func parseYAML(file string, data []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var doc, more yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxError(file, err)
	case len(doc.Content) != 1:
		return nil, nil
	}
	switch err := loader.Load(&more); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: second document: want one", file, more.Line)
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(file, err)
	}
	return doc.Content[0], nil
}

// SyntaxError is the fault of a file of which nothing could be read.
type SyntaxError struct{ text string }

func (e *SyntaxError) Error() string { return e.text }

func syntaxError(file string, err error) error {
	var at *yaml.LoadError
	if !errors.As(err, &at) {
		return &SyntaxError{fmt.Sprintf("%s: not YAML: %v", file, err)}
	}
	if at.Mark.Line > 0 {
		file = fmt.Sprintf("%s:%d", file, at.Mark.Line)
	}
	return &SyntaxError{fmt.Sprintf("%s: not YAML: %s", file, at.Message)}
}

func (d *decoder) fault(at *yaml.Node, key, format string, args ...any) {
	where := fmt.Sprintf("%s:%d", d.file, at.Line)
	if key != "" {
		where += ": " + key
	}
	d.faults = append(d.faults, fmt.Errorf("%s: "+format, append([]any{where}, args...)...))
}

// value decodes n into v, whose key is path.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	at := n
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	isNull := n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
	switch {
	case v.Type() == reflect.TypeFor[*yaml.Node]():
		if !isNull {
			v.Set(reflect.ValueOf(n))
		}
	case v.Kind() == reflect.Struct && !readsText(v):
		if isNull { // a section whose keys are all commented out
			return
		}
		keys, isFilter := keysOf(v.Type()), v.Type() == reflect.TypeFor[Filter]()
		if isFilter {
			keys = filterKeys()
		}
		switch {
		case n.Kind != yaml.MappingNode:
			d.fault(at, path, "%s: want keys and values: %s", shape(n), strings.Join(keys, ", "))
		case isFilter:
			d.filter(n, v, path)
		default:
			d.members(n, path, keys, func(key, value *yaml.Node, full string) {
				field, _ := fieldByKey(v, key.Value)
				d.value(value, field, full)
			})
		}
	case v.Kind() == reflect.Slice && (n.Kind != yaml.ScalarNode || isNull || !readsText(v)):
		if n.Kind != yaml.SequenceNode {
			d.fault(at, path, "%s: want a list, [] for an empty one", shape(n))
			return
		}
		list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			d.value(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
		v.Set(list)
	case n.Kind != yaml.ScalarNode || isNull:
		d.fault(at, path, "%s: want %s", shape(n), wanted(v))
	case v.Kind() == reflect.String && n.ShortTag() != "!!str":
		d.fault(at, path, "%s: want %s; put it in quotes if it is one", shape(n), wanted(v))
	default:
		if err := setText(v, n.Value); err != nil {
			d.fault(at, path, "%w", err)
		}
	}
}

// readsText tells whether v, which may be a struct or a list, has a text form.
func readsText(v reflect.Value) bool {
	_, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	return ok
}

// members calls each with what stands under every key of n, and with the whole key. Keys
// that are twice or unknown are faults.
func (d *decoder) members(n *yaml.Node, path string, known []string, each func(key, value *yaml.Node, full string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		full := join(path, key.Value)
		if first, twice := seen[key.Value]; twice {
			d.fault(key, full, "key is there twice, first in line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		if key.Kind != yaml.ScalarNode || !slices.Contains(known, key.Value) {
			d.fault(key, full, "unknown key%s", suggest(key.Value, known))
			continue
		}
		each(key, value, full)
	}
}

// shape says what n is without its text.
func shape(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	default:
		return scalarShape(n.ShortTag())
	}
}

func scalarShape(tag string) string {
	switch tag {
	case "!!null":
		return "no value"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a true or false"
	case "!!timestamp":
		return "a date"
	default:
		return "a text"
	}
}
