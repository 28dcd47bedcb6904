// Package jobfile reads jobs as people write them and as they are sent to the master: YAML, or
// JSON, which is YAML too. It refuses unknown keys, and names file, line and key of every
// fault. It opens no file and calls nobody.
package jobfile

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
	"golang.org/x/net/http/httpguts"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/strict"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/proxies"
)

// The bounds of settings.
const (
	MaxPriority    = 9
	MaxDispatch    = 100_000
	MaxAttempts    = 100
	MaxConcurrency = 100
	MaxDelay       = 24 * time.Hour
	MinTimeout     = 100 * time.Millisecond
	MaxBody        = configs.Size(1) << 40
	MaxScript      = 64 * configs.KiB // of download_js
)

// maxURIFaults is how many faulty URIs of a list are reported one by one.
const maxURIFaults = 20

// file is a job as written in a file.
type file struct {
	Name     string     `yaml:"name"`
	Priority int        `yaml:"priority"`
	Filter   string     `yaml:"filter"`
	URIs     *yaml.Node `yaml:"uris"`
	Setting  setting    `yaml:"setting"`
	Code     *yaml.Node `yaml:"code"`
	Generate *yaml.Node `yaml:"generate"`
	Parse    *yaml.Node `yaml:"parse"`
}

type setting struct {
	Dispatch    int           `yaml:"dispatch"`
	Attempts    int           `yaml:"max_download_times"`
	Timeout     time.Duration `yaml:"timeout"`
	Engine      string        `yaml:"download_engine"`
	Script      string        `yaml:"download_js"`
	Prior       string        `yaml:"prior"`
	Proxy       []string      `yaml:"proxy"`
	Cookie      string        `yaml:"cookie"`
	KeepCookies bool          `yaml:"keep_cookies"`
	Headers     *yaml.Node    `yaml:"headers"`
	Delay       time.Duration `yaml:"delay"`
	Concurrency int           `yaml:"concurrency"`
	Robots      bool          `yaml:"robots"`
	MaxBytes    configs.Size  `yaml:"max_bytes"`
	Mails       []string      `yaml:"report_mails"`
}

// Source says where the URIs of a job file are.
type Source struct {
	List []download.NewTask // in the job file itself
	File string             // with one URI per line, beside the job file; "": none
	URL  string             // with one URI per line; "": none
	// Codes are the files of scripts whose code is not in the job file.
	Codes []CodeFile
}

// Default is the job of a file that has only a name.
func Default() download.Job {
	return download.Job{Priority: 3, On: true, Setting: download.Setting{
		Dispatch: 100, Engine: download.EngineHTTP, Lane: download.Normal, Timeout: 30 * time.Second, MaxAttempts: 3,
		Delay: time.Second, Concurrency: 2, KeepCookies: true, Robots: true, MaxBytes: int64(64 * configs.MiB),
	}}
}

// Parse reads a job. The error joins all faults, one per line.
func Parse(name string, data []byte) (download.Job, Source, error) {
	d := Default()
	f := file{Priority: d.Priority, Setting: setting{
		Dispatch: d.Setting.Dispatch, Attempts: d.Setting.MaxAttempts, Timeout: d.Setting.Timeout, Engine: d.Setting.Engine,
		Prior: string(d.Setting.Lane), Delay: d.Setting.Delay, Concurrency: d.Setting.Concurrency, Robots: true, KeepCookies: true,
		MaxBytes: configs.Size(d.Setting.MaxBytes),
	}}
	root, err := strict.Parse(name, data)
	if err != nil {
		return d, Source{}, err
	}
	if root == nil {
		return d, Source{}, fmt.Errorf("%s: empty: want a job, such as {name: news, uris: [https://example.com/]}", name)
	}
	c := &check{file: name, lines: map[string]int{}}
	c.locate("", root)
	if err := strict.DecodeNode(name, "", root, &f); err != nil {
		c.faults = append(c.faults, err)
	}
	j := download.Job{Name: f.Name, Priority: f.Priority, On: true, Filter: f.Filter, Setting: download.Setting{
		Dispatch: f.Setting.Dispatch, Engine: f.Setting.Engine, Lane: download.Lane(f.Setting.Prior), Timeout: f.Setting.Timeout,
		MaxAttempts: f.Setting.Attempts, Delay: f.Setting.Delay, Concurrency: f.Setting.Concurrency, Robots: f.Setting.Robots,
		Proxies: f.Setting.Proxy, Cookie: f.Setting.Cookie, KeepCookies: f.Setting.KeepCookies, MaxBytes: int64(f.Setting.MaxBytes), Script: f.Setting.Script, ReportMails: f.Setting.Mails,
	}}
	j.Setting.Headers = c.headers(f.Setting.Headers)
	c.job(j)
	source := c.source(f.URIs)
	j.Code = c.downloadCode(f.Code, j.Setting.Engine)
	j.Setting.Generate, j.Setting.Parse = c.generate(f.Generate), c.parse(f.Parse)
	source.Codes = c.codes
	return j, source, errors.Join(c.faults...)
}

// check collects faults, and knows the line of each key.
type check struct {
	file   string
	lines  map[string]int
	faults []error
	codes  []CodeFile
}

func (c *check) locate(path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := strict.Join(path, n.Content[i].Value)
		c.lines[key] = n.Content[i].Line
		c.locate(key, n.Content[i+1])
	}
}

func (c *check) fault(key, format string, args ...any) {
	line := 0
	for at := key; at != "" && line == 0; at = at[:max(0, strings.LastIndexByte(at, '.'))] { // of what does not exist: where it should be
		line = c.lines[at]
	}
	c.faultIn(line, key, format, args...)
}

// faultIn adds a fault in a line, 0 if the line is not known.
func (c *check) faultIn(line int, key, format string, args ...any) {
	where := c.file
	if line > 0 {
		where = fmt.Sprintf("%s:%d", c.file, line)
	}
	c.faults = append(c.faults, fmt.Errorf("%s: %s: %s", where, key, fmt.Sprintf(format, args...)))
}

var jobName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

func (c *check) job(j download.Job) {
	between := func(key string, value, from, to int) {
		if value < from || value > to {
			c.fault(key, "%d: want %d to %d", value, from, to)
		}
	}
	s := j.Setting
	if !jobName.MatchString(j.Name) {
		c.fault("name", "%q: want up to 63 of a-z, 0-9, _ and -, a letter or digit first", j.Name)
	}
	c.filter("filter", j.Filter)
	between("priority", j.Priority, 0, MaxPriority)
	between("setting.dispatch", s.Dispatch, 1, MaxDispatch)
	between("setting.max_download_times", s.MaxAttempts, 1, MaxAttempts)
	between("setting.concurrency", s.Concurrency, 1, MaxConcurrency)
	if s.Timeout < MinTimeout || s.Timeout > download.MaxTimeout {
		c.fault("setting.timeout", "%s: want %s to %s", s.Timeout, MinTimeout, download.MaxTimeout)
	}
	if s.Delay < 0 || s.Delay > MaxDelay {
		c.fault("setting.delay", "%s: want 0s to %s", s.Delay, MaxDelay)
	}
	if s.MaxBytes < 1 || s.MaxBytes > int64(MaxBody) {
		c.fault("setting.max_bytes", "%d: want 1 to %s", s.MaxBytes, MaxBody)
	}
	if !slices.Contains(download.Lanes(), s.Lane) {
		c.fault("setting.prior", "%q: want normal, urgency or foreign", s.Lane)
	}
	switch s.Engine {
	case download.EngineHTTP, download.EngineScript:
		if s.Script != "" {
			c.fault("setting.download_js", "is for download_engine: browser, and this job has %s", s.Engine)
		}
	case download.EngineBrowser:
		c.script(s.Script)
	default:
		c.fault("setting.download_engine", "%q: want http, browser or script", s.Engine)
	}
	for i, proxy := range s.Proxies {
		if _, err := proxies.Parse(proxy); err != nil {
			c.fault(fmt.Sprintf("setting.proxy[%d]", i), "want http://host:port, https://host:port, socks5://host:port or socks5h://host:port, perhaps with user:password@ before the host")
		}
	}
	if !httpguts.ValidHeaderFieldValue(s.Cookie) {
		c.fault("setting.cookie", "cannot stand in a header: want name=value; name=value in one line")
	}
	for i, mail := range s.ReportMails {
		if at := strings.LastIndex(mail, "@"); at < 1 || at == len(mail)-1 || strings.ContainsAny(mail, " \r\n<>,") {
			c.fault(fmt.Sprintf("setting.report_mails[%d]", i), "%q: want an address such as crawl@example.com", mail)
		}
	}
}

// script checks the JavaScript of a job, as far as can be done without a browser.
func (c *check) script(text string) {
	switch {
	case c.lines["setting.download_js"] > 0 && strings.TrimSpace(text) == "":
		c.fault("setting.download_js", "is empty: want JavaScript, such as return document.title, or leave it out")
	case len(text) > int(MaxScript):
		c.fault("setting.download_js", "has %d bytes: want %s at most", len(text), MaxScript)
	case strings.ContainsRune(text, 0):
		c.fault("setting.download_js", "has a zero byte")
	}
}

// ownHeaders are headers that the worker sets, or that would break the request.
var ownHeaders = []string{"Host", "Connection", "Content-Length", "Transfer-Encoding", "Accept-Encoding", "Te", "Trailer", "Upgrade", "Cookie", "Proxy-Authorization"}

func (c *check) headers(n *yaml.Node) map[string]string {
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		c.fault("setting.headers", "want names and values, such as {Accept-Language: en}")
		return nil
	}
	headers := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := "setting.headers." + name.Value
		canonical := http.CanonicalHeaderKey(name.Value)
		switch {
		case value.Kind != yaml.ScalarNode:
			c.fault(key, "want a text")
		case !httpguts.ValidHeaderFieldName(name.Value):
			c.faultIn(name.Line, "setting.headers", "%q cannot be the name of a header", name.Value)
		case !httpguts.ValidHeaderFieldValue(value.Value):
			c.fault(key, "cannot stand in a header")
		case slices.Contains(ownHeaders, canonical):
			c.fault(key, "is set by the worker%s", map[bool]string{true: ": give setting.cookie"}[canonical == "Cookie"])
		case headers[canonical] != "":
			c.fault(key, "appears twice")
		default:
			headers[canonical] = value.Value
		}
	}
	return headers
}

func (c *check) source(n *yaml.Node) Source {
	switch {
	case n == nil:
		return Source{}
	case n.Kind == yaml.SequenceNode:
		var list []download.NewTask
		wrong := 0
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				c.faultIn(item.Line, fmt.Sprintf("uris[%d]", i), "want a URI")
				continue
			}
			if task, err := download.TaskOf(item.Value); err == nil {
				list = append(list, task)
			} else if wrong++; wrong <= maxURIFaults {
				c.faultIn(item.Line, fmt.Sprintf("uris[%d]", i), "%v", err)
			}
		}
		if wrong > maxURIFaults {
			c.fault("uris", "and %d more that are no URIs", wrong-maxURIFaults)
		}
		return Source{List: list}
	case n.Kind == yaml.ScalarNode && (strings.HasPrefix(n.Value, "http://") || strings.HasPrefix(n.Value, "https://")):
		return Source{URL: n.Value}
	case n.Kind == yaml.ScalarNode && n.Value != "":
		return Source{File: n.Value}
	}
	c.fault("uris", "want the name of a file with a URI a line, a list of URIs, or the URL of such a file")
	return Source{}
}

// WithoutURIs returns the text of a job without its URIs, which are sent separately.
func WithoutURIs(name string, data []byte) ([]byte, error) {
	root, err := strict.Parse(name, data)
	if err != nil || root == nil || root.Kind != yaml.MappingNode {
		return data, err
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "uris" {
			root.Content = slices.Delete(root.Content, i, i+2)
			break
		}
	}
	return yaml.Marshal(root)
}
