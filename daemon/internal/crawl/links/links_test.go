package links

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

func at(t *testing.T, s string) *uri.URI {
	t.Helper()
	u, err := uri.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func uris(p *Page) (all []string) {
	for _, f := range p.Links {
		all = append(all, f.URI.String())
	}
	return all
}

// TestElements: which elements of a page are links.
func TestElements(t *testing.T) {
	t.Parallel()
	images := Options{Images: true}
	for _, c := range []struct {
		name, page string
		o          Options
		want       []string // URI without http://h.example, text, rel, nofollow
	}{
		{"a", `<a href="/x">One <b>and</b>
			two</a> three`, Options{}, []string{`/x "One and two" "" false`}},
		{"a without end", `<a href=/x>One<a href=/y>Two`, Options{}, []string{`/x "One" "" false`, `/y "Two" "" false`}},
		{"no href", `<a name=x>no</a><a>no</a><a href>page</a>`, Options{}, []string{`/d/p "page" "" false`}},
		{"first of two attributes", `<a href=1 href=2></a>`, Options{}, []string{`/d/1 "" "" false`}},
		{"letter case", `<A HREF=/x REL="NoFollow  Next">X</A>`, Options{}, []string{`/x "X" "nofollow next" true`}},
		{"entities", `<a href="/?a=1&amp;b=2&copy=3&#x41;">&lt;&eacute;&gt;</a>`, Options{}, []string{`/?a=1&b=2&copy=3A "<é>" "" false`}},
		{"alt of an image", `<a href=/x><img alt="a  cat" src=c.png> sits</a>`, Options{}, []string{`/x "a cat sits" "" false`}},
		{"svg", `<svg><a xlink:href="/s"><text>S</text></a></svg>`, Options{}, []string{`/s "S" "" false`}},
		{"area", `<map><area href=/r alt=" the  room "></map>`, Options{}, []string{`/r "the room" "" false`}},
		{"frames", `<frameset><frame src=f1 name=left></frameset><iframe src="f2"><a href=/no></a></iframe>`, Options{},
			[]string{`/d/f1 "left" "" false`, `/d/f2 "" "" false`}},
		{"link", `<link rel=stylesheet href=s.css><link rel="alternate stylesheet" href=s2.css><link rel=next href=2><link rel=icon href=i.png><link href=none><link rel=canonical href=/c><link rel=preload href=p>`,
			Options{}, []string{`/d/2 "" "next" false`, `/c "" "canonical" false`}},
		{"comment, script, style, template", `<!-- <a href=/no> --><script>"<a href=/no>"</script><style><a href=/no></style><template><a href=/no>x</a><template></template></template><a href=/yes></a>`,
			Options{}, []string{`/yes "" "" false`}},
		{"noscript", `<noscript><a href=/yes>n</a></noscript>`, Options{}, []string{`/yes "n" "" false`}},
		{"textarea and title", `<title><a href=/no></title><textarea><a href=/no></textarea>`, Options{}, nil},
		{"no images", `<img src=i.png srcset="j.png 2x"><input type=image src=k.png>`, Options{}, nil},
		{"images", `<img src=i.png alt=I srcset="j.png 2x, k.png"><picture><source srcset="l.png 100w"></picture><input type=Image src=m.png><link rel="shortcut icon" href=n.png><video><source src=no.mp4></video>`,
			images, []string{`/d/i.png "I" "" false`, `/d/j.png "I" "" false`, `/d/k.png "I" "" false`, `/d/l.png "" "" false`, `/d/m.png "" "" false`, `/d/n.png "" "shortcut icon" false`}},
		{"refresh", `<meta http-equiv=Refresh content="5; URL='/to'">`, Options{}, []string{`/to "" "" false`}},
		{"robots", `<a href=/x></a><meta name=ROBOTS content="noarchive, NoFollow">`, Options{}, []string{`/x "" "" true`}},
		{"robots of another", `<a href=/x></a><meta name=otherbot content="nofollow">`, Options{Agent: "uridownloader"}, []string{`/x "" "" false`}},
		{"robots of ours", `<a href=/x></a><meta name=uriDownloader content="none">`, Options{Agent: "uridownloader"}, []string{`/x "" "" true`}},
		{"header", `<a href=/x></a>`, Options{Robots: []string{"noindex, nofollow"}}, []string{`/x "" "" true`}},
		{"header of another", `<a href=/x></a>`, Options{Robots: []string{"otherbot: nofollow"}}, []string{`/x "" "" false`}},
		{"broken", `<a href="/x><p><a href='/y'>`, Options{}, nil},
		{"end of file in a tag", `<a href=/x>text</a><a href=/y`, Options{}, []string{`/x "text" "" false`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, f := range Extract([]byte(c.page), at(t, "http://h.example/d/p"), c.o).Links {
				got = append(got, fmt.Sprintf("%s %q %q %v", strings.TrimPrefix(f.URI.String(), "http://h.example"), f.Text, f.Rel, f.NoFollow))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestReferences: how browsers read a reference, also where net/url differs.
func TestReferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ reference, want string }{
		{"x", "http://h.example/d/x"},
		{"", "http://h.example/d/p?q"},
		{"?r", "http://h.example/d/p?r"},
		{"#f", "http://h.example/d/p?q"},
		{"../../../x", "http://h.example/x"},
		{"./x/./y/..", "http://h.example/d/x/"},
		{"//o.example/y#f", "http://o.example/y"},
		{`\\o.example\y`, "http://o.example/y"},
		{`\x`, "http://h.example/x"},
		{"http:c.html", "http://h.example/d/c.html"},
		{"https:c.html", "https://c.html/"},
		{"HTTP://H.Example:80/a", "http://h.example/a"},
		{"  x\ty\n z ", "http://h.example/d/xy%20z"},
		{"/%zz", "http://h.example/%zz"},
		{"/ä?ä", "http://h.example/%C3%A4?%C3%A4"},
		{"http://münchen.example/", "http://xn--mnchen-3ya.example/"},
		{"http://0x7f.1/", "http://127.0.0.1/"},
		{"http://[::1]:8080/", "http://[::1]:8080/"},
		{"/a|b'c?d|e'f", "http://h.example/a|b'c?d|e%27f"},
		{"http://user:secret@h.example/", "http://h.example/"},
		{"x:y", ""}, {"mailto:a@b.example", ""}, {"javascript:void(0)", ""}, {"data:text/html,x", ""}, {"\x01JavaScript:x", ""}, {"java\nscript:x", ""},
		{"http://", ""}, {"http://a b/", ""}, {"http://h.example:99999/", ""},
	} {
		page := fmt.Sprintf(`<a href="%s">x</a>`, strings.ReplaceAll(c.reference, `"`, "&quot;"))
		p := Extract([]byte(page), at(t, "http://h.example/d/p?q"), Options{})
		if got := strings.Join(uris(p), " "); got != c.want {
			t.Errorf("%q: got %q, want %q", c.reference, got, c.want)
		}
		if n := len(p.Links) + p.Invalid + p.Long + p.Cut + sum(p.Schemes); n != 1 {
			t.Errorf("%q: %d links are counted, want 1", c.reference, n)
		}
	}
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// TestBase: the first base with an href counts for the whole page, also for links before it.
func TestBase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ page, want string }{
		{`<a href=x></a><base target=_top><base href=/b/><base href=/c/><a href=y></a>`, "http://h.example/b/x http://h.example/b/y"},
		{`<base href="http://o.example/"><a href=x></a><a href="//p.example/"></a>`, "http://o.example/x http://p.example/"},
		{`<base href="mailto:x"><a href=x></a>`, "http://h.example/d/x"},
		{`<template><base href=/b/></template><a href=x></a>`, "http://h.example/d/x"},
		{`<base href=""><a href=x></a>`, "http://h.example/d/x"},
	} {
		if got := strings.Join(uris(Extract([]byte(c.page), at(t, "http://h.example/d/p"), Options{})), " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.page, got, c.want)
		}
	}
}

// TestQueryEncoding: queries are sent in the encoding of the page, everything else in UTF-8.
func TestQueryEncoding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ encoding, reference, want string }{
		{"gbk", "/中?q=中文&r=a", "/%E4%B8%AD?q=%D6%D0%CE%C4&r=a"},
		{"gb18030", "?q=한", "/?q=%836%843"}, // a character of four bytes, two of them digits
		{"gbk", "?q=한", "/?q=%26%2354620%3B"},
		{"gbk", "?q=😀x", "/?q=%26%23128512%3Bx"},
		{"gbk", "?q=€", "/?q=%80"},
		{"big5", "?q=中文", "/?q=%A4%A4%A4%E5"},
		{"big5", "?q=許功蓋", "/?q=%B3\\%A5\\%BB\\"}, // second bytes that are ASCII stay
		{"shift_jis", "?q=日本語", "/?q=%93%FA%96{%8C%EA"},
		{"euc-jp", "?q=日本語", "/?q=%C6%FC%CB%DC%B8%EC"},
		{"iso-2022-jp", "?q=日本語x", "/?q=%1B$BF|K\\8l%1B(Bx"},
		{"euc-kr", "?q=한국", "/?q=%C7%D1%B1%B9"},
		{"windows-1251", "?q=мир", "/?q=%EC%E8%F0"},
		{"koi8-r", "?q=мир", "/?q=%CD%C9%D2"},
		{"windows-1252", "?q=é€", "/?q=%E9%80"},
		{"windows-1252", "?q=中'\"", "/?q=%26%2320013%3B%27%22"},
		{"utf-8", "?q=é", "/?q=%C3%A9"},
		{"utf-16le", "?q=é", "/?q=%C3%A9"},
		{"no such", "?q=é", "/?q=%C3%A9"},
		{"windows-1252", "/é#?é", "/%C3%A9"},
		{"windows-1252", "?%E9=é%", "/?%E9=%E9%"},
	} {
		p := Extract(fmt.Appendf(nil, `<a href="%s">x</a>`, strings.ReplaceAll(c.reference, `"`, "&quot;")), at(t, "http://h.example/"), Options{Encoding: c.encoding})
		if got, want := strings.Join(uris(p), " "), "http://h.example"+c.want; got != want {
			t.Errorf("%s in %s: got %s, want %s", c.reference, c.encoding, got, want)
		}
	}
}

// TestCandidates: the cases of a srcset.
func TestCandidates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ srcset, want string }{
		{"a.png", "a.png"}, {"a.png 1x, b.png 2x", "a.png b.png"}, {"a.png, b.png", "a.png b.png"}, {"a.png,b.png", "a.png,b.png"},
		{" , a.png 100w 50h ,b.png", "a.png b.png"}, {"a.png (x, y) 1x, b.png", "a.png b.png"}, {"data:,x 1x", "data:,x"}, {"", ""}, {",,", ""}, {"a.png,,", "a.png"},
	} {
		if got := strings.Join(candidates(c.srcset), " "); got != c.want {
			t.Errorf("%q: got %q, want %q", c.srcset, got, c.want)
		}
	}
}

// TestRefresh: the spellings of a meta refresh.
func TestRefresh(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"0;url=x": "x", "0; URL = 'x y' z": "x y", "0,x": "x", "0 x": "x", " 5.5 ; url=\"x\"": "x", ".5;x": "x", "0;urlx": "urlx", "0;url": "url",
		"0": "-", "0;": "-", "x;url=y": "-", "": "-", "-1;url=x": "-", "0x;url=y": "-",
	} {
		got, ok := refresh(content)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
}

// TestBounds: a page cannot make us keep more than a bounded number of bounded links.
func TestBounds(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	for i := range 150 {
		fmt.Fprintf(&page, `<a href="/%d">%s</a><a href="s%d:x"></a>`, i, strings.Repeat("ä ", 1000), i)
	}
	fmt.Fprintf(&page, `<a href="/%s"></a>`, strings.Repeat("x", 1<<20))
	p := Extract([]byte(page.String()), at(t, "http://h.example/"), Options{MaxLinks: 100, MaxText: 10})
	if len(p.Links) != 100 || p.Cut != 50 || p.Long != 1 || len(p.Schemes) != 32 {
		t.Errorf("got %d links, %d cut, %d long, %d schemes; want 100, 50, 1, 32", len(p.Links), p.Cut, p.Long, len(p.Schemes))
	}
	if got := p.Links[0].Text; got != "ä ä ä" {
		t.Errorf("text: got %q, want ä ä ä", got)
	}
	p = Extract([]byte(`<a href="/ääää"></a>`), at(t, "http://h.example/"), Options{Longest: 30})
	if p.Long != 1 || len(p.Links) != 0 {
		t.Errorf("got %d long, %d links; want 1, 0: the length is that of the URI when it is encoded", p.Long, len(p.Links))
	}
}

// TestPage: what a page says about itself.
func TestPage(t *testing.T) {
	t.Parallel()
	p := Extract([]byte(`<link rel=canonical href="c#x"><link rel=canonical href=d><a href=mailto:x></a><a href="MAILTO:y"></a><a href="http://a b/"></a>`),
		at(t, "http://h.example/d/p"), Options{Robots: []string{"unavailable_after: 25 Jun 2030 15:00:00 PST", "max-snippet: 5", "Bot: none", "uridownloader: noindex"}, Agent: "uridownloader"})
	if !p.NoIndex || p.NoFollow || p.Invalid != 1 {
		t.Errorf("got %v %v %d, want noindex without nofollow, 1 invalid", p.NoIndex, p.NoFollow, p.Invalid)
	}
	if want := map[string]int{"mailto": 2}; !maps.Equal(p.Schemes, want) {
		t.Errorf("schemes: got %v, want %v", p.Schemes, want)
	}
}
