package robots

import (
	"strings"
	"testing"
	"time"
)

// Cases from RFC 9309 and from what Google documents, in our words.
func TestAllowed(t *testing.T) {
	for name, test := range map[string]struct {
		file, agent string
		yes, no     string // paths
	}{
		"nothing":                        {"", "ours", "/ /a /robots.txt", ""},
		"all":                            {"user-agent: *\ndisallow: /", "ours", "/robots.txt", "/ /a /a?b"},
		"a rule before any agent":        {"disallow: /\nuser-agent: a\ndisallow: /x", "ours", "/ /x", ""},
		"another's group":                {"user-agent: other\ndisallow: /", "ours", "/", ""},
		"any letter case":                {"UsEr-AgEnT: OURS\nDISALLOW: /x", "ours/2.1", "/X /", "/x"},
		"paths have a letter case":       {"user-agent: *\ndisallow: /X", "ours", "/x", "/X"},
		"the named group alone":          {"user-agent: *\ndisallow: /\nuser-agent: ours\ndisallow: /x", "ours", "/ /y", "/x"},
		"an empty named group":           {"user-agent: ours\nuser-agent: x\ndisallow:\nuser-agent: *\ndisallow: /", "ours", "/ /y", ""},
		"not the beginning of a name":    {"user-agent: our\ndisallow: /", "ours", "/", ""},
		"not a longer name":              {"user-agent: ours-images\ndisallow: /", "ours", "/", ""},
		"a name with a version":          {"user-agent: ours/1.0 (x)\ndisallow: /x", "ours", "/", "/x"},
		"groups are merged":              {"user-agent: ours\ndisallow: /a\nuser-agent: x\ndisallow: /b\nuser-agent: ours\ndisallow: /c", "ours", "/ /b", "/a /c"},
		"star groups are merged":         {"user-agent: *\ndisallow: /a\nuser-agent: x\ndisallow: /b\nuser-agent: *\ndisallow: /c", "ours", "/ /b", "/a /c"},
		"many agents of one group":       {"user-agent: x\nuser-agent: ours\nuser-agent: y\ndisallow: /a", "ours", "/", "/a"},
		"other lines part no agents":     {"user-agent: x\nsitemap: http://a/\n\n# c\nunknown: 1\nuser-agent: ours\ndisallow: /a", "x", "/", "/a"},
		"star with a text behind":        {"user-agent: * bot\ndisallow: /a", "ours", "/", "/a"},
		"longest wins":                   {"user-agent: *\nallow: /p\ndisallow: /\n", "ours", "/p /page", "/ /x"},
		"longest wins, other order":      {"user-agent: *\ndisallow: /x/page.html\nallow: /x/", "ours", "/x/ /x/other", "/x/page.html"},
		"a tie allows":                   {"user-agent: *\ndisallow: /folder\nallow: /folder", "ours", "/folder /folder/page", ""},
		"a star counts as a character":   {"user-agent: *\nallow: /page\ndisallow: /*.htm", "ours", "/page", "/page.htm"},
		"the end":                        {"user-agent: *\nallow: /$\ndisallow: /", "ours", "/", "/page.htm /?"},
		"prefix":                         {"user-agent: *\ndisallow: /fish", "ours", "/Fish.asp /catfish /?id=fish", "/fish /fish.html /fish/salmon.html /fishheads /fish.php?id=anything"},
		"a star at the end":              {"user-agent: *\ndisallow: /fish*", "ours", "/Fish.asp /desert/fish", "/fish /fishheads/yummy.html"},
		"a folder":                       {"user-agent: *\ndisallow: /fish/", "ours", "/fish /fish.html /animals/fish/", "/fish/ /fish/salmon.htm /fish/?id=anything"},
		"star":                           {"user-agent: *\ndisallow: /*.php", "ours", "/ /windows.PHP", "/index.php /folder/filename.php /filename.php?parameters /filename.php/"},
		"star and end":                   {"user-agent: *\ndisallow: /*.php$", "ours", "/filename.php?parameters /filename.php/ /filename.php5 /windows.PHP", "/filename.php /folder/filename.php /a.php.php"},
		"star within":                    {"user-agent: *\ndisallow: /fish*.php", "ours", "/Fish.PHP /fish", "/fish.php /fishheads/catfish.php?parameters"},
		"a dollar that is not the end":   {"user-agent: *\ndisallow: /a$b", "ours", "/a /ab", "/a$b /a$bc"},
		"stars in a row":                 {"user-agent: *\ndisallow: /a**b*$", "ours", "/a /ac", "/ab /axxbxx"},
		"no slash":                       {"user-agent: *\ndisallow: *.gif", "ours", "/gif", "/a.gif /b/c.gif?d"},
		"international":                  {"user-agent: *\ndisallow: /foo/bar/ツ", "ours", "/foo/bar/", "/foo/bar/%E3%83%84 /foo/bar/%e3%83%84 /foo/bar/ツ"},
		"escapes of letters":             {"user-agent: *\ndisallow: /foo/bar/%62%61%7A", "ours", "/foo/bar/ba", "/foo/bar/baz /foo/bar/%62az"},
		"reserved characters stay":       {"user-agent: *\ndisallow: /a%2fb\ndisallow: /x%2a", "ours", "/a/b /x /xy", "/a%2Fb /a%2fb /x%2A"},
		"a broken escape":                {"user-agent: *\ndisallow: /a%zz", "ours", "/a", "/a%zz"},
		"BOM":                            {"\xef\xbb\xbfuser-agent: *\ndisallow: /a", "ours", "/", "/a"},
		"half a BOM":                     {"\xef\xbbuser-agent: *\ndisallow: /a", "ours", "/ /a", ""},
		"CR and CR LF":                   {"user-agent: *\rdisallow: /a\r\ndisallow: /b\n\rdisallow: /c", "ours", "/", "/a /b /c"},
		"spaces, tabs, comments":         {" \tuser-agent\t: \t* # all\n  disallow :\t/a\t # a\n#disallow: /b\ndisallow: /c#d", "ours", "/b /", "/a /c"},
		"no colon":                       {"user-agent *\ndisallow /a", "ours", "/", "/a"},
		"typos":                          {"useragent: *\ndisalow: /a\ndissallow: /b\ndissalow: /c", "ours", "/", "/a /b /c"},
		"no robots.txt at all":           {"<!DOCTYPE html><html><body style=\"color: red\">disallow</body></html>", "ours", "/ /a", ""},
		"an agent without a name":        {"user-agent:\ndisallow: /a", "ours", "/a", ""},
		"a crawl delay parts no agents":  {"user-agent: x\ncrawl-delay: 5\nuser-agent: ours\ndisallow: /a", "x", "/", "/a"},
		"a crawl delay and the second":   {"user-agent: *\ncrawl-delay: 5\nuser-agent: ours\ndisallow: /a", "ours", "/", "/a"},
		"an escaped star is no wildcard": {"user-agent: *\ndisallow: /path/file-with-a-%2A.html\ndisallow: /a%2a", "ours", "/path/file-with-a-x.html /ab", "/path/file-with-a-*.html /path/file-with-a-%2A.html /a*b /a%2Ab"},
		"an escaped dollar is no end":    {"user-agent: *\ndisallow: /path/foo-%24", "ours", "/path/foo-", "/path/foo-$ /path/foo-%24 /path/foo-$bar"},
		"a star matches an escaped one":  {"user-agent: *\ndisallow: /a*c$", "ours", "/a*cd", "/a%2Ac /a*c /a$c"},
		"query":                          {"user-agent: *\ndisallow: /*?sid=", "ours", "/a?b=sid", "/a?sid=1 /?sid="},
		"a path without a slash":         {"user-agent: *\ndisallow: /a", "ours", "b ?a", "a"},
		"a line that is very long":       {"user-agent: *\ndisallow: /" + strings.Repeat("a", 1<<20) + "\ndisallow: /b", "ours", "/b", ""}, // past MaxBytes
	} {
		rules := Parse([]byte(test.file)).For(test.agent)
		for path := range strings.FieldsSeq(test.yes) {
			if !rules.Allowed(path) {
				t.Errorf("%s: %s is forbidden", name, path)
			}
		}
		for path := range strings.FieldsSeq(test.no) {
			if rules.Allowed(path) {
				t.Errorf("%s: %s is allowed", name, path)
			}
		}
	}
}

func TestBytesThatAreRead(t *testing.T) {
	head, line := "user-agent: *\ndisallow: /a\n", "\ndisallow: /b\n"
	within := head + strings.Repeat("#", MaxBytes-len(head)-len(line)) + line
	if Parse([]byte(within)).For("x").Allowed("/b") {
		t.Error("the last rule within the bound is not read")
	}
	if r := Parse([]byte(head + strings.Repeat("#", MaxBytes) + line)).For("x"); !r.Allowed("/b") || r.Allowed("/a") {
		t.Error("a rule past the bound is read, or one before it is not")
	}
}

func TestExtras(t *testing.T) {
	f := Parse([]byte("sitemap: http://a/1.xml\nuser-agent: *\ncrawl-delay: 2.5\nSitemap: http://a/2.xml # two\ndisallow:\nuser-agent: fast\ncrawl-delay: -1\ndisallow:\nuser-agent: slow\ncrawl-delay: 1e300\ndisallow:\nuser-agent: odd\ncrawl-delay: NaN"))
	for agent, want := range map[string]time.Duration{"x": 2500 * time.Millisecond, "fast": 0, "slow": MaxDelay, "odd": 0} {
		if got := f.For(agent).Delay(); got != want {
			t.Errorf("%s: delay %s, want %s", agent, got, want)
		}
	}
}

// slowMatch is matches by brute force: the expected result.
func slowMatch(pattern, path string) bool {
	switch {
	case pattern == "":
		return true
	case pattern == "$":
		return path == ""
	case pattern[0] == '*':
		for i := range len(path) + 1 {
			if slowMatch(pattern[1:], path[i:]) {
				return true
			}
		}
		return false
	}
	return path != "" && path[0] == pattern[0] && slowMatch(pattern[1:], path[1:])
}

func FuzzMatch(f *testing.F) {
	f.Add("/a*b$", "/axxb")
	f.Add("*$", "")
	f.Add("/%%370", "/%%370")
	f.Add("/a*a*a*a$", "/aaaaaaaaaaab")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 12 || len(path) > 24 {
			return
		}
		if got, want := matches(pattern, path), slowMatch(pattern, path); got != want {
			t.Errorf("%q on %q: %t, want %t", pattern, path, got, want)
		}
		if once := encode(path, false); encode(once, false) != once {
			t.Errorf("%q is %q, and then %q", path, once, encode(once, false))
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("user-agent: *\ndisallow: /*a$\nallow: /\ncrawl-delay: 1\nsitemap: x"), "/b")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		parsed := Parse(text)
		r := parsed.For("ours")
		if r.Delay() < 0 || r.Delay() > MaxDelay {
			t.Errorf("delay %s", r.Delay())
		}
		if !r.Allowed("/robots.txt") {
			t.Error("/robots.txt is forbidden")
		}
		r.Allowed(path)
	})
}

func BenchmarkAllowed(b *testing.B) {
	r := Parse([]byte("user-agent: *\n" + strings.Repeat("disallow: /a*b*c/d\nallow: /e/f$\n", 50))).For("ours")
	b.ReportAllocs()
	for b.Loop() {
		r.Allowed("/aaaa/bbbb/cccc/dddd?query=1")
	}
}
