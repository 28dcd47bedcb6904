package jobfile

import (
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs/strict"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
)

// code is the code of a job as it is sent; in a job file it may be the name of a file instead.
type code struct {
	File     string `yaml:"file"`
	Language string `yaml:"language"`
	SHA256   string `yaml:"sha256"` // of the text, in hex; "": not checked
	Text     string `yaml:"text"`
}

// code reads the key of this name: the code, or the name of its file.
func (c *check) code(n *yaml.Node, engine string) (download.Code, string) {
	switch {
	case n == nil && engine == download.EngineScript:
		c.fault("code", "is not there: download_engine: script wants the name of a file beside this one, such as job.star")
		return download.Code{}, ""
	case n == nil:
		return download.Code{}, ""
	case engine != download.EngineScript:
		c.fault("code", "is for download_engine: script, and this job has %s", engine)
		return download.Code{}, ""
	case n.Kind == yaml.ScalarNode && n.Value != "":
		return download.Code{}, n.Value
	case n.Kind != yaml.MappingNode:
		c.fault("code", "want the name of a file, or {file: job.star, text: ...}")
		return download.Code{}, ""
	}
	k := code{File: "job.star", Language: script.Language}
	if err := strict.DecodeNode(c.file, "code", n, &k); err != nil {
		c.faults = append(c.faults, err)
		return download.Code{}, ""
	}
	return c.checked(k), ""
}

func (c *check) checked(k code) download.Code {
	found := download.Code{Language: k.Language, File: k.File, Text: k.Text}
	if k.File == "" || len(k.File) > 200 || filepath.Base(k.File) != k.File || strings.ContainsFunc(k.File, func(r rune) bool { return r < ' ' }) {
		c.fault("code.file", "%q: want a name without a folder, such as job.star", k.File)
		return found
	}
	if err := script.Check(found); err != nil {
		c.faults = append(c.faults, err) // it names file and line of the code
	} else if k.SHA256 != "" && !strings.EqualFold(k.SHA256, found.SHA256()) {
		c.fault("code.sha256", "%s is not that of the text, %s", k.SHA256, found.SHA256())
	}
	return found
}

// WithCode is the text of a job whose code is the name of a file, with the code itself. The error
// tells what is wrong with the code.
func WithCode(name string, data []byte, file, text string) ([]byte, error) {
	found := download.Code{Language: script.Language, File: filepath.Base(file), Text: text}
	if err := script.Check(found); err != nil {
		return nil, err
	}
	root, err := strict.Parse(name, data)
	if err != nil {
		return nil, err
	}
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: want a job", name)
	}
	var n yaml.Node
	if err := n.Encode(code{File: found.File, Language: found.Language, SHA256: found.SHA256(), Text: found.Text}); err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "code" {
			root.Content[i+1] = &n
		}
	}
	return yaml.Marshal(root)
}
