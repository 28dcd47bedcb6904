// Package robots reads robots.txt files and says what they allow (by RFC 9309, and where it leaves
// room, by what Google documents for its crawlers). Its Cache keeps those of many hosts. It calls
// nobody: who asks the Cache brings a function that fetches.
package robots

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxBytes is how much of a file is read, the least that crawlers must read (RFC 9309, 2.5).
	MaxBytes = 500 << 10
	// MaxDelay is the longest Crawl-delay that is accepted.
	MaxDelay = time.Hour

	maxLine = 16 << 10 // bytes of a line; longer ones are cut
)

// File is what a robots.txt says. It is not changed once it is made, and may be used by several
// goroutines.
type File struct {
	groups []group
}

// group holds the rules below one or more User-agent lines. Groups of one agent count together.
type group struct {
	agents []string // in lower case
	rules  []rule
	delay  time.Duration // 0: none
}

type rule struct {
	allow   bool
	pattern string // encoded as paths are
}

// Parse reads a file. It has no errors: it skips invalid lines, and everything after MaxBytes.
func Parse(text []byte) *File {
	p := parser{f: &File{}}
	text = bytes.TrimPrefix(text[:min(len(text), MaxBytes)], []byte("\xef\xbb\xbf"))
	for len(text) > 0 {
		end := bytes.IndexAny(text, "\r\n")
		line := text
		if end < 0 {
			text = nil
		} else {
			line, text = text[:end], text[end+1:]
		}
		p.line(string(line[:min(len(line), maxLine)]))
	}
	return p.f
}

type parser struct {
	f      *File
	naming bool // the last line named an agent: another one belongs to the same group
}

func (p *parser) line(text string) {
	text, _, _ = strings.Cut(text, "#")
	key, value, found := strings.Cut(text, ":")
	if !found { // some files lack the colon
		fields := strings.Fields(text)
		if len(fields) != 2 {
			return
		}
		key, value = fields[0], fields[1]
	}
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	switch key {
	case "user-agent", "useragent", "user agent":
		p.agent(value)
	case "allow":
		p.rule(true, value)
	case "disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw":
		p.rule(false, value)
	case "crawl-delay", "crawldelay", "crawl delay":
		// It is no rule: it ends no list of agents (RFC 9309, 2.2.4).
		if g := p.group(); g != nil {
			if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds >= 0 {
				g.delay = max(g.delay, time.Duration(min(seconds, MaxDelay.Seconds())*float64(time.Second)))
			}
		}
	}
}

func (p *parser) agent(value string) {
	if !p.naming {
		p.f.groups = append(p.f.groups, group{})
	}
	p.naming = true
	name := "*"
	if !strings.HasPrefix(value, "*") || len(value) > 1 && value[1] != ' ' && value[1] != '\t' {
		if name = token(value); name == "" {
			return
		}
	}
	g := p.group()
	g.agents = append(g.agents, name)
}

func (p *parser) rule(allow bool, value string) {
	p.naming = false
	if g := p.group(); g != nil && value != "" { // an empty rule has no effect
		g.rules = append(g.rules, rule{allow, encode(value, true)})
	}
}

// group is the group that a rule belongs to; nil before the first User-agent line.
func (p *parser) group() *group {
	if len(p.f.groups) == 0 {
		return nil
	}
	return &p.f.groups[len(p.f.groups)-1]
}

// token is the name of a product: the leading letters, - and _ of a value, in lower case.
func token(value string) string {
	end := 0
	for end < len(value) && (value[end]|0x20 >= 'a' && value[end]|0x20 <= 'z' || value[end] == '-' || value[end] == '_') {
		end++
	}
	return strings.ToLower(value[:end])
}

// Rules are the rules of the file for one agent.
type Rules struct {
	rules []rule
	delay time.Duration
}

// For returns the rules for a crawler with that product token, the name in User-Agent before
// the slash: all groups that name it, or if none does, all that name *.
func (f *File) For(agent string) Rules {
	name := token(agent)
	if r, found := f.named(name); found && name != "" {
		return r
	}
	r, _ := f.named("*")
	return r
}

func (f *File) named(name string) (Rules, bool) {
	var r Rules
	found := false
	for _, g := range f.groups {
		for _, a := range g.agents {
			if a == name {
				found = true
				r.rules = append(r.rules, g.rules...)
				r.delay = max(r.delay, g.delay)
				break
			}
		}
	}
	return r, found
}

// Delay is the Crawl-delay, 0 if there is none. RFC 9309 does not define it.
func (r Rules) Delay() time.Duration { return r.delay }

// Allowed reports whether a path with its query may be fetched: the rule with the longest matching
// pattern counts; of two with the same length, the one that allows. /robots.txt is always allowed.
func (r Rules) Allowed(path string) bool {
	if path = encode(path, false); path == "" || path[0] != '/' {
		path = "/" + path
	}
	if path == "/robots.txt" {
		return true
	}
	longest, allow := -1, true
	for _, rule := range r.rules {
		if n := len(rule.pattern); (n > longest || n == longest && rule.allow) && matches(rule.pattern, path) {
			longest, allow = n, rule.allow
		}
	}
	return allow
}
