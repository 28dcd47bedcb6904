package sniff

import (
	"strings"
	"testing"
)

func TestLookOdd(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://a/\rhttp://b/\r": "text whose lines end in CR alone", "a\rb": "text whose lines end in CR alone",
		"<?xml version=\"1.0\"?>\n<urlset xmlns=\"x\"><url>":               "a sitemap (XML)",
		"\ufeff <sitemapindex>":                                            "a sitemap (XML)",
		"<?xml version=\"1.0\"?><rss>":                                     "XML",
		"<!DOCTYPE html>\n<p>":                                             "HTML",
		"[\"http://a/\", \"http://b/\"]":                                   "JSON",
		"{\"url\": \"http://a/\"}\n":                                       "JSON",
		" CDX N b a m s k r M S V g\n":                                     "an index of an archive (CDX)",
		"com,example)/ 20200101000000 http://example.com/ text/html 200 -": "an index of an archive (CDX)",
		"com,example)/ 20200101000000 {\"url\": \"http://example.com/\"}":  "an index of an archive (CDX)",
		"id,url,title\n1,http://a/,A\n":                                    "a table (CSV) with the columns id, url, title",
		"\"Title\";\"URL\"\r\n":                                            "a table (CSV) with the columns Title, URL",
		"loc\tlastmod\n":                                                   "a table (CSV) with the columns loc, lastmod",
		// lists of items
		"": "", "http://a/\n": "", "http://a/\r\nhttp://b/\r\n": "", "http://a/\r": "", "http://a/?x=1,url\n": "", "url\nhttp://a/": "", "a,b\n": "", "apples, pears\n": "",
		"{x\n": "", "192.0.2.1 20200101000000 x\n": "", "<a>\n": "", "a\rb\nc\n": "",
	} {
		got := ""
		if odd := LookOdd([]byte(text)); odd != nil {
			if got = odd.What; (odd.As == "") == (odd.Hint == "") {
				t.Errorf("%q: want a converter or a hint, got %+v", text, odd)
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := LookOdd([]byte("id;Link\n")); got.As != "csv:Link" {
		t.Errorf("got %+v", got)
	}
	if LookOdd([]byte(strings.Repeat("x", Bytes)+"\rx")) != nil {
		t.Error("more than the first bytes were looked at")
	}
}
