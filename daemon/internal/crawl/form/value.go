package form

import (
	"fmt"
	"io"
	"mime"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs/strict"
	"github.com/cr-clawer/urifilter/daemon/internal/program/secret"
)

// maxUpload is the length of the longest file that is sent.
const maxUpload = 16 << 20

// Value is the value for a field.
type Value struct {
	Texts   []string // of fields; of boxes the checked ones; of lists the chosen ones
	Checked *bool    // of one box
	Uploads []Upload
}

// field is a field of a file of steps, in its order.
type field struct {
	name  string
	line  int
	value Value
}

// source is a value that is kept outside the file.
type source struct {
	File   string `yaml:"file"`   // a file with only the value; one line end after it is ignored
	Env    string `yaml:"env"`    // environment variable
	Upload string `yaml:"upload"` // a file that is sent unchanged
}

// values reads the values of fields. It collects faults, which never show a value.
type values struct {
	file   string
	dir    string // the base of relative paths
	env    func(string) (string, bool)
	faults []error
}

func (v *values) fault(n *yaml.Node, key, format string, args ...any) {
	v.faults = append(v.faults, fmt.Errorf("%s:%d: %s: %s", v.file, n.Line, key, fmt.Sprintf(format, args...)))
}

// read takes a mapping of names to values.
func (v *values) read(n *yaml.Node, key string) []field {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		v.fault(n, key, "want names and values")
		return nil
	}
	var all []field
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, full := n.Content[i], strict.Join(key, n.Content[i].Value)
		if first, twice := seen[at.Value]; twice {
			v.fault(at, full, "key appears twice, first in line %d; several values are a list", first)
			continue
		}
		seen[at.Value] = at.Line
		f := field{name: at.Value, line: at.Line}
		v.value(n.Content[i+1], full, &f.value)
		all = append(all, f)
	}
	return all
}

func (v *values) value(n *yaml.Node, key string, into *Value) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			if item.Kind == yaml.SequenceNode || item.ShortTag() == "!!bool" {
				v.fault(item, fmt.Sprintf("%s[%d]", key, i), "want a text")
				continue
			}
			v.value(item, fmt.Sprintf("%s[%d]", key, i), into)
		}
	case n.Kind == yaml.MappingNode:
		v.source(n, key, into)
	case n.ShortTag() == "!!null":
		v.fault(n, key, `no value: want a text, "" for none`)
	case n.ShortTag() == "!!bool":
		checked := n.Value == "true"
		into.Checked = &checked
	default:
		into.Texts = append(into.Texts, n.Value) // also a number, as written
	}
}

func (v *values) source(n *yaml.Node, key string, into *Value) {
	var s source
	if err := strict.DecodeNode(v.file, key, n, &s); err != nil {
		v.faults = append(v.faults, err)
		return
	}
	switch {
	case s.File != "" && s.Env == "" && s.Upload == "":
		text, err := secret.Read(v.path(s.File))
		if err != nil {
			v.fault(n, key, "%v", err)
		}
		into.Texts = append(into.Texts, text)
	case s.Env != "" && s.File == "" && s.Upload == "":
		text, ok := v.env(s.Env)
		if !ok {
			v.fault(n, key, "the variable %s is not set", s.Env)
		}
		into.Texts = append(into.Texts, text)
	case s.Upload != "" && s.File == "" && s.Env == "":
		upload, err := readUpload(v.path(s.Upload))
		if err != nil {
			v.fault(n, key, "%v", err)
		}
		into.Uploads = append(into.Uploads, upload)
	default:
		v.fault(n, key, "want one of file, env and upload")
	}
}

func (v *values) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(v.dir, path)
}

func readUpload(path string) (Upload, error) {
	f, err := os.Open(path)
	if err != nil {
		return Upload{}, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxUpload+1))
	if err != nil {
		return Upload{}, err
	}
	if len(body) > maxUpload {
		return Upload{}, fmt.Errorf("%s: longer than %d bytes", path, maxUpload)
	}
	u := Upload{Name: filepath.Base(path), Type: mime.TypeByExtension(filepath.Ext(path)), Bytes: body}
	if u.Type == "" {
		u.Type = "application/octet-stream"
	}
	return u, nil
}
