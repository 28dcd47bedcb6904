package jobfile

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/strict"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

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
