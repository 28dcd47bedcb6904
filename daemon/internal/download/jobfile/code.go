package jobfile

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs"
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

// The bounds of the time between two runs of generate.
const (
	MinEvery = 10 * time.Second
	MaxEvery = 366 * 24 * time.Hour
)

// The filters that are asked by default.
const (
	generateFilter = "uri_generator"
	parseFilter    = "uri_parse"
)

type generate struct {
	Code   *yaml.Node    `yaml:"code"`
	Every  time.Duration `yaml:"every"`
	Filter string        `yaml:"filter"`
	Host   string        `yaml:"host"`
}

func (c *check) generate(n *yaml.Node) download.Generate {
	if n == nil {
		return download.Generate{}
	}
	g := generate{Filter: generateFilter}
	if err := strict.DecodeNode(c.file, "generate", n, &g); err != nil {
		c.faults = append(c.faults, err)
		return download.Generate{}
	}
	host := g.Host
	if host != "" {
		host = download.HostOf("http://" + g.Host + "/")
		port := strings.Contains(g.Host, ":") && !(strings.HasPrefix(g.Host, "[") && strings.HasSuffix(g.Host, "]"))
		if host == "" || port || strings.ContainsAny(g.Host, "/\\@?# ") {
			c.fault("generate.host", "%q: want the name of a host, such as www.example.com", g.Host)
		}
	}
	if g.Every != 0 && (g.Every < MinEvery || g.Every > MaxEvery || g.Every%time.Second != 0) {
		c.fault("generate.every", "%s: want %s to %s in whole seconds, or nothing for one run of each version of the job", g.Every, MinEvery, MaxEvery)
	}
	c.filter("generate.filter", g.Filter)
	return download.Generate{Code: c.scriptCode("generate.code", download.ScriptGenerate, g.Code), Every: g.Every, Filter: g.Filter, Host: host}
}

type parse struct {
	Code   *yaml.Node `yaml:"code"`
	Filter string     `yaml:"filter"`
}

func (c *check) parse(n *yaml.Node) download.Parse {
	if n == nil {
		return download.Parse{}
	}
	p := parse{Filter: parseFilter}
	if err := strict.DecodeNode(c.file, "parse", n, &p); err != nil {
		c.faults = append(c.faults, err)
		return download.Parse{}
	}
	c.filter("parse.filter", p.Filter)
	return download.Parse{Code: c.scriptCode("parse.code", download.ScriptParse, p.Code), Filter: p.Filter}
}

// scriptCode reads the code of a required script.
func (c *check) scriptCode(key string, of download.Script, n *yaml.Node) download.Code {
	if n == nil {
		c.fault(key, "is missing: want the name of a file beside this one, such as %s.star", of)
		return download.Code{}
	}
	return c.code(key, of, n)
}

func (c *check) filter(key, name string) {
	if wrong := configs.CheckName(name); name != "" && wrong != "" {
		c.fault(key, "%s", wrong)
	}
}

// nodeBytes is what a part of a YAML text takes in memory while it is read: a key, a value, or an item of a list.
const nodeBytes = 250

// Cost is about how many bytes of memory Parse needs for a text, and how many parts the text has: a few bytes can be a
// part of their own. Callers compare it with what there is before they call Parse.
func Cost(data []byte) (bytesNeeded int64, parts int) {
	parts = 20
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) { // UTF-16: each character may be a part
		parts += len(data) / 2
		return 3*int64(len(data)) + nodeBytes*int64(parts), parts
	}
	for _, ends := range []string{",", "[", "{", "\n", "\r", "\u0085", "\u2028", "\u2029"} { // the last five end lines
		parts += bytes.Count(data, []byte(ends))
	}
	parts -= bytes.Count(data, []byte("\r\n")) // one end
	blank := func(at int) bool { return at < len(data) && (data[at] == ' ' || data[at] == '\t') }
	for at, b := range data {
		if (b == '-' || b == '?') && at > 0 && blank(at-1) && blank(at+1) { // a list in a list, in one line
			parts++
		}
	}
	parts += bytes.Count(data, []byte(":")) - bytes.Count(data, []byte("://"))
	return 3*int64(len(data)) + nodeBytes*int64(parts), parts
}
