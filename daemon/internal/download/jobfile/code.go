package jobfile

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs/strict"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
)

// code is the code of a script as it is sent; a job file may have the name of a file instead.
type code struct {
	File     string `yaml:"file"`
	Language string `yaml:"language"` // "": by the name of the file
	SHA256   string `yaml:"sha256"`   // of the text, in hex; "": not checked
	Text     string `yaml:"text"`
}

// CodeFile is the file of a script; it lies beside the job file that names it.
type CodeFile struct {
	Key    string // of the job file, such as generate.code
	Script download.Script
	File   string
}

// downloadCode reads the key code.
func (c *check) downloadCode(n *yaml.Node, engine string) download.Code {
	switch {
	case n == nil && engine == download.EngineScript:
		c.fault("code", "is missing: download_engine: script wants the name of a file beside this one, such as job.star")
		return download.Code{}
	case n == nil:
		return download.Code{}
	case engine != download.EngineScript:
		c.fault("code", "is for download_engine: script, and this job has %s", engine)
		return download.Code{}
	}
	return c.code("code", download.ScriptDownload, n)
}

// code reads the code of a script, or the name of its file, which it adds to the files of the source.
func (c *check) code(key string, of download.Script, n *yaml.Node) download.Code {
	switch {
	case n.Kind == yaml.ScalarNode && n.Value != "":
		c.codes = append(c.codes, CodeFile{key, of, n.Value})
		return download.Code{}
	case n.Kind != yaml.MappingNode:
		c.fault(key, "want the name of a file, or {file: job.star, text: ...}")
		return download.Code{}
	}
	k := code{File: "job.star"}
	if err := strict.DecodeNode(c.file, key, n, &k); err != nil {
		c.faults = append(c.faults, err)
		return download.Code{}
	}
	return c.checked(key, of, k)
}

func (c *check) checked(key string, of download.Script, k code) download.Code {
	found := download.Code{Language: cmp.Or(k.Language, script.LanguageOf(k.File)), File: k.File, Text: k.Text}
	if k.File == "" || len(k.File) > 200 || filepath.Base(k.File) != k.File || strings.ContainsFunc(k.File, func(r rune) bool { return r < ' ' }) {
		c.fault(key+".file", "%q: want a name without a folder, such as job.star", k.File)
		return found
	}
	if err := script.Check(found, of); err != nil {
		c.faults = append(c.faults, err) // it names file and line of the code
	} else if k.SHA256 != "" && !strings.EqualFold(k.SHA256, found.SHA256()) {
		c.fault(key+".sha256", "%s is not that of the text, %s", k.SHA256, found.SHA256())
	}
	return found
}

// WithCode returns the text of a job with the name of a script's file replaced by the code itself.
// The error says what is wrong with the code.
func WithCode(name string, data []byte, named CodeFile, text string) ([]byte, error) {
	found := download.Code{Language: script.LanguageOf(named.File), File: filepath.Base(named.File), Text: text}
	if err := script.Check(found, named.Script); err != nil {
		return nil, err
	}
	root, err := strict.Parse(name, data)
	if err != nil {
		return nil, err
	}
	var n yaml.Node
	if err := n.Encode(code{File: found.File, Language: found.Language, SHA256: found.SHA256(), Text: found.Text}); err != nil {
		return nil, err
	}
	at := root
	keys := strings.Split(named.Key, ".")
	for i, key := range keys {
		value := valueOf(at, key)
		if value == nil {
			return nil, fmt.Errorf("%s: %s: does not exist", name, named.Key)
		}
		if i == len(keys)-1 {
			*value = &n
		}
		at = *value
	}
	return yaml.Marshal(root)
}

// valueOf returns where the value of a key is, nil if there is none.
func valueOf(n *yaml.Node, key string) **yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return &n.Content[i+1]
		}
	}
	return nil
}
