// Package links finds the links of an HTML page, as the HTML and URL standards of WHATWG say. It
// reads tokens, builds no tree, runs no script and keeps a bounded number of links. The caller
// decides whether a link is followed.
package links

import (
	"bytes"
	"cmp"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// Options say what is wanted of a page. Zero values mean the defaults.
type Options struct {
	Images   bool     // img, srcset and icons too
	MaxLinks int      // links of one page; 0: 10,000
	Longest  int      // bytes of a link's URI; 0: 2,048
	MaxText  int      // bytes of a link's text; 0: 200
	Encoding string   // in which queries are sent, as charset.Result.Query says; "": utf-8
	Agent    string   // its rules in meta robots count besides those of "robots"; "": nobody's
	Robots   []string // values of the header X-Robots-Tag
	Refresh  []string // values of the header Refresh, which browsers follow as they do the meta element
}

// Found is one link.
type Found struct {
	URI      *uri.URI // without fragment
	Text     string   // of the anchor, or the alt of an image; white space becomes one blank
	Rel      string   // its words in lower case, separated by blanks
	NoFollow bool     // by its rel, or by the page's robots
}

// Page is what a page says about others.
type Page struct {
	Links    []Found // in page order, with repetitions
	NoIndex  bool    // by robots
	NoFollow bool
	// What is not in Links:
	Schemes map[string]int // mailto, javascript, ...: the links of other schemes; at most 32 names
	Invalid int            // no URI
	Long    int            // too long
	Cut     int            // after Options.MaxLinks
}

// Extract finds the links of a page in UTF-8, which was fetched from at.
func Extract(page []byte, at *uri.URI, o Options) *Page {
	o.MaxLinks, o.Longest, o.MaxText = cmp.Or(o.MaxLinks, 10_000), cmp.Or(o.Longest, 2048), cmp.Or(o.MaxText, 200)
	r := reader{o: o, z: html.NewTokenizer(bytes.NewReader(page)), page: &Page{Schemes: map[string]int{}}}
	for _, value := range o.Robots {
		r.robotsHeader(value)
	}
	for _, value := range o.Refresh {
		if to, ok := refresh(value); ok {
			r.add(to, Found{})
		}
	}
	r.read()
	r.resolve(at)
	return r.page
}

// raw is a link as written in the page.
type raw struct {
	reference string
	Found
}

type reader struct {
	o    Options
	z    *html.Tokenizer
	page *Page

	found     []raw
	base      string // of the first base element
	hasBase   bool
	templates int // how many template elements are open: their content is not part of the page
	open      int // index+1 of the anchor whose text is being read, 0: none
	text      text
}

// read processes the tokens.
func (r *reader) read() {
	for {
		switch r.z.Next() {
		case html.ErrorToken:
			r.closeAnchor()
			return
		case html.TextToken:
			if r.open > 0 {
				r.text.add(r.z.Text(), r.o.MaxText)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := r.z.TagName()
			r.start(string(name), attributes(r.z, more))
		case html.EndTagToken:
			name, _ := r.z.TagName()
			r.end(string(name))
		}
	}
}

// attributes are those that links need; of two with the same name the first counts.
func attributes(z *html.Tokenizer, more bool) (a map[string]string) {
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if !wanted[string(key)] {
			continue
		}
		if a == nil {
			a = make(map[string]string, 4)
		}
		if _, twice := a[string(key)]; !twice {
			a[string(key)] = string(value)
		}
	}
	return a
}

var wanted = map[string]bool{
	"href": true, "xlink:href": true, "src": true, "srcset": true, "imagesrcset": true, "rel": true, "alt": true,
	"name": true, "content": true, "http-equiv": true, "type": true,
}

func (r *reader) start(name string, a map[string]string) {
	switch name {
	case "noscript":
		r.z.NextIsNotRawText() // its content counts, as no script is run
	case "template":
		r.templates++
	}
	if r.templates > 0 {
		return
	}
	switch name {
	case "base":
		if href, ok := a["href"]; ok && !r.hasBase {
			r.base, r.hasBase = href, true
		}
	case "a", "area":
		r.anchor(name, a)
	case "link":
		r.link(a)
	case "iframe", "frame":
		if src, ok := a["src"]; ok {
			r.add(src, Found{Text: a["name"]})
		}
	case "img":
		if r.open > 0 {
			r.text.add([]byte(a["alt"]), r.o.MaxText)
		}
		r.image(a)
	case "source":
		r.image(map[string]string{"srcset": a["srcset"]})
	case "input":
		if strings.EqualFold(a["type"], "image") {
			r.image(map[string]string{"src": a["src"], "alt": a["alt"]})
		}
	case "meta":
		r.meta(a)
	}
}

func (r *reader) end(name string) {
	switch name {
	case "template":
		r.templates = max(0, r.templates-1)
	case "a":
		r.closeAnchor()
	}
}

func (r *reader) anchor(name string, a map[string]string) {
	href, ok := a["href"]
	if !ok && name == "a" {
		href, ok = a["xlink:href"] // of SVG
	}
	if name == "a" {
		r.closeAnchor() // an a within an a ends the first
	}
	if !ok {
		return
	}
	rel := words(a["rel"])
	f := Found{Rel: strings.Join(rel, " "), NoFollow: has(rel, "nofollow")}
	if name == "area" {
		f.Text = clean(a["alt"], r.o.MaxText)
	}
	if r.add(href, f) && name == "a" {
		r.text.drain()
		r.open = len(r.found)
	}
}

func (r *reader) closeAnchor() {
	if r.open > 0 {
		r.found[r.open-1].Text = r.text.drain()
		r.open = 0
	}
}

// add keeps a link, and reports whether it did.
func (r *reader) add(reference string, f Found) bool {
	reference = trim(reference)
	if scheme := otherScheme(reference); scheme != "" {
		if len(r.page.Schemes) < 32 || r.page.Schemes[scheme] > 0 {
			r.page.Schemes[scheme]++
		}
		return false
	}
	switch {
	case len(reference) > 4*r.o.Longest: // escapes make it longer, dot segments shorter: a bound for memory
		r.page.Long++
	case len(r.found) >= r.o.MaxLinks:
		r.page.Cut++
	default:
		r.found = append(r.found, raw{reference, f})
		return true
	}
	return false
}

// resolve makes URIs of the references, all against the base, which may come after them.
func (r *reader) resolve(at *uri.URI) {
	if r.hasBase {
		if base, err := at.Resolve(trim(r.base)); err == nil {
			at = base
		}
	}
	encoder := queryEncoder(r.o.Encoding)
	r.page.Links = make([]Found, 0, len(r.found))
	for _, f := range r.found {
		u, err := at.Resolve(encoder.reference(f.reference))
		switch {
		case err != nil:
			r.page.Invalid++
			continue
		case len(u.String()) > r.o.Longest:
			r.page.Long++
			continue
		}
		f.URI = u
		f.NoFollow = f.NoFollow || r.page.NoFollow
		r.page.Links = append(r.page.Links, f.Found)
	}
	r.found = nil
}

// spaces is the white space of HTML.
const spaces = " \t\n\r\f"

// text collects text of a bounded length, with one blank for each run of white space.
type text struct {
	b     []byte
	blank bool // a blank is due before the next character
	full  bool
}

func (t *text) add(s []byte, limit int) {
	for len(s) > 0 && !t.full {
		r, size := utf8.DecodeRune(s)
		s = s[size:]
		if r == 0xa0 || r < 0x80 && strings.IndexByte(spaces, byte(r)) >= 0 {
			t.blank = len(t.b) > 0
			continue
		}
		more := size
		if t.blank {
			more++
		}
		if len(t.b)+more > limit { // no character is cut in two
			t.full = true
			return
		}
		if t.blank {
			t.b, t.blank = append(t.b, ' '), false
		}
		t.b = utf8.AppendRune(t.b, r)
	}
}

// drain returns what was collected, and empties it.
func (t *text) drain() string {
	s := string(t.b)
	t.b, t.blank, t.full = t.b[:0], false, false
	return s
}

func clean(s string, limit int) string {
	var t text
	t.add([]byte(s), limit)
	return t.drain()
}

// trim does the first steps of the URL standard: it removes controls and spaces at the ends, and
// tabs and line ends everywhere.
func trim(reference string) string {
	reference = strings.TrimFunc(reference, func(r rune) bool { return r <= ' ' })
	if !strings.ContainsAny(reference, "\t\n\r") {
		return reference
	}
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, reference)
}

// otherScheme returns the scheme of a reference, in lower case, if that is not http or https.
func otherScheme(reference string) string {
	for i := range len(reference) {
		c := reference[i]
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			scheme := strings.ToLower(reference[:min(i, 32)])
			if scheme == "http" || scheme == "https" {
				return ""
			}
			return scheme
		default:
			return ""
		}
	}
	return ""
}
