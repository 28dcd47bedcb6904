package links

import (
	"slices"
	"strings"
)

// hyperlinks are the words of rel that make a link lead to another page.
var hyperlinks = []string{"alternate", "amphtml", "appendix", "author", "chapter", "contents", "copyright", "first", "glossary", "help",
	"index", "last", "license", "next", "prev", "previous", "privacy-policy", "search", "section", "start", "subsection", "terms-of-service", "up"}

// resources are the words of rel that make it a part of this page, whatever else it says.
var resources = []string{"stylesheet", "preload", "modulepreload", "prefetch", "preconnect", "dns-prefetch", "manifest", "pingback"}

func (r *reader) link(a map[string]string) {
	href, ok := a["href"]
	if !ok || href == "" {
		return
	}
	rel := words(a["rel"])
	switch {
	case has(rel, "canonical"): // a link, whatever else it says
	case has(rel, "icon"), has(rel, "apple-touch-icon"):
		if !r.o.Images {
			return
		}
	case slices.ContainsFunc(rel, func(w string) bool { return slices.Contains(resources, w) }):
		return
	case !slices.ContainsFunc(rel, func(w string) bool { return slices.Contains(hyperlinks, w) }):
		return
	}
	r.add(href, Found{Rel: strings.Join(rel, " "), NoFollow: has(rel, "nofollow")})
}

func (r *reader) image(a map[string]string) {
	if !r.o.Images {
		return
	}
	alt := clean(a["alt"], r.o.MaxText)
	if src := a["src"]; src != "" {
		r.add(src, Found{Text: alt})
	}
	for _, src := range candidates(a["srcset"]) {
		r.add(src, Found{Text: alt})
	}
}

// candidates are the URIs of a srcset: separated by commas, but commas within a URI, or in the
// parentheses of a descriptor, do not separate.
func candidates(srcset string) (all []string) {
	for {
		srcset = strings.TrimLeft(srcset, spaces+",")
		if srcset == "" {
			return all
		}
		end := strings.IndexAny(srcset, spaces)
		if end < 0 {
			end = len(srcset)
		}
		src, rest := srcset[:end], srcset[end:]
		if bare := strings.TrimRight(src, ","); bare != src {
			srcset = rest
			src = bare
		} else {
			srcset = afterDescriptors(rest)
		}
		if src != "" {
			all = append(all, src)
		}
	}
}

func afterDescriptors(s string) string {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth = 1 // parentheses do not nest
		case ')':
			depth = 0
		case ',':
			if depth == 0 {
				return s[i+1:]
			}
		}
	}
	return ""
}

func (r *reader) meta(a map[string]string) {
	if strings.EqualFold(strings.TrimSpace(a["http-equiv"]), "refresh") {
		if to, ok := refresh(a["content"]); ok {
			r.add(to, Found{})
		}
	}
	if name := strings.TrimSpace(a["name"]); strings.EqualFold(name, "robots") || r.o.Agent != "" && strings.EqualFold(name, r.o.Agent) {
		r.robots(a["content"])
	}
}

// robotsHeader reads a value of X-Robots-Tag, which may be for one agent only.
func (r *reader) robotsHeader(value string) {
	if agent, rules, ok := strings.Cut(value, ":"); ok && !strings.ContainsAny(agent, ", ") && !strings.EqualFold(agent, "unavailable_after") &&
		!strings.HasPrefix(strings.ToLower(agent), "max-") {
		if r.o.Agent == "" || !strings.EqualFold(strings.TrimSpace(agent), r.o.Agent) {
			return
		}
		value = rules
	}
	r.robots(value)
}

func (r *reader) robots(rules string) {
	for rule := range strings.SplitSeq(rules, ",") {
		switch strings.ToLower(strings.TrimSpace(rule)) {
		case "none":
			r.page.NoIndex, r.page.NoFollow = true, true
		case "noindex":
			r.page.NoIndex = true
		case "nofollow":
			r.page.NoFollow = true
		}
	}
}

// refresh reads the content of a meta refresh: a time, then a URI in several spellings. It returns
// false if there is no URI, which means the page itself.
func refresh(content string) (to string, ok bool) {
	s := strings.TrimLeft(content, spaces)
	rest := strings.TrimLeft(s, "0123456789")
	if rest == s && !strings.HasPrefix(rest, ".") {
		return "", false
	}
	rest = strings.TrimLeft(rest, "0123456789.")
	if rest == "" || !strings.ContainsAny(rest[:1], spaces+";,") {
		return "", false
	}
	rest = strings.TrimLeft(rest, spaces)
	if rest != "" && (rest[0] == ';' || rest[0] == ',') {
		rest = strings.TrimLeft(rest[1:], spaces)
	}
	if rest == "" {
		return "", false
	}
	if len(rest) > 3 && strings.EqualFold(rest[:3], "url") {
		if after := strings.TrimLeft(rest[3:], spaces); strings.HasPrefix(after, "=") {
			rest = strings.TrimLeft(after[1:], spaces)
		}
	}
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		rest, _, _ = strings.Cut(rest[1:], rest[:1])
	}
	return rest, true
}

func words(s string) []string { return strings.Fields(strings.ToLower(s)) }

func has(all []string, word string) bool { return slices.Contains(all, word) }
