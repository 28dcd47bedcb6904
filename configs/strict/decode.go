package strict

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
// the decoder of the YAML library in what it refuses (unknown or repeated
// keys, empty values, documents after the first) and in naming the
// file, the line and the whole key of every fault. It never prints a value that is
// meant for a text field, which may be a secret.
type decoder struct {
	file   string
	faults []error
}

// Decode fills what into points to from the YAML in data: by yaml tags, strictly, each fault
// with file, line and key. Keys that data leaves out keep their values. The error joins all
// faults. Besides texts, numbers, times, lists and structs it knows types that read themselves
// from text, a [Mapping], *yaml.Node, which accepts any value as it is, and the tag ",inline".
func Decode(file string, data []byte, into any) error {
	root, err := Parse(file, data)
	if root == nil || err != nil {
		return err
	}
	return DecodeNode(file, "", root, into)
}

// DecodeNode is Decode for the part of a file that is under key.
func DecodeNode(file, key string, n *yaml.Node, into any) error {
	d := &decoder{file: file}
	d.value(n, reflect.ValueOf(into).Elem(), key)
	return errors.Join(d.faults...)
}

// Parse returns the root of the only document, nil if there is none.
func Parse(file string, data []byte) (*yaml.Node, error) {
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

// SyntaxError is the fault of a file from which nothing could be read.
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
		keys := Keys(v.Type())
		own, readsItself := v.Addr().Interface().(Mapping)
		if readsItself {
			keys = own.MemberKeys()
		}
		switch {
		case n.Kind != yaml.MappingNode:
			d.fault(at, path, "%s: want keys and values: %s", shape(n), strings.Join(keys, ", "))
		case readsItself:
			own.ReadMembers(&Members{d, n, path, keys, map[string]*yaml.Node{}})
		default:
			d.members(n, path, keys, func(key, value *yaml.Node, full string) {
				field, _ := FieldByKey(v, key.Value)
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
		d.fault(at, path, "%s: want %s", shape(n), Wanted(v))
	case v.Kind() == reflect.String && n.ShortTag() != "!!str":
		d.fault(at, path, "%s: want %s; put it in quotes if it is one", shape(n), Wanted(v))
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

// members calls each with every key of n, its value and the whole key. Keys that are
// repeated or unknown are faults.
func (d *decoder) members(n *yaml.Node, path string, known []string, each func(key, value *yaml.Node, full string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		full := Join(path, key.Value)
		if first, twice := seen[key.Value]; twice {
			d.fault(key, full, "key appears twice, first in line %d", first)
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

// Mapping is a struct whose keys are not, or not all, its fields.
type Mapping interface {
	// MemberKeys returns the keys that are allowed.
	MemberKeys() []string
	// ReadMembers reads their values.
	ReadMembers(m *Members)
}

// Members are the keys and values of a [Mapping] in a file.
type Members struct {
	d    *decoder
	n    *yaml.Node
	path string
	keys []string
	at   map[string]*yaml.Node
}

// Each calls take once for every key in the file, with a function that reads its value into
// a setting.
func (m *Members) Each(take func(key string, read func(into reflect.Value))) {
	m.d.members(m.n, m.path, m.keys, func(key, value *yaml.Node, full string) {
		m.at[key.Value] = key
		take(key.Value, func(into reflect.Value) { m.d.value(value, into, full) })
	})
}

// Fault adds a fault of a key that Each has passed to take.
func (m *Members) Fault(key, text string) { m.d.fault(m.at[key], Join(m.path, key), "%s", text) }

// shape says what n is, without showing its text.
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
