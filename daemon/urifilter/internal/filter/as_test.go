package filter

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
)

const sitemap = `<?xml version="1.0" encoding="ISO-8859-1"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc> http://a/?x=1&amp;y=2
</loc><image:image><image:loc>http://a/picture</image:loc></image:image></url><url><loc>http://a/` + "\xe9" + `</loc></url></urlset>`

// TestAs: items are taken out of files that are no lists of items.
func TestAs(t *testing.T) {
	s := clienttest.NewServer(t)
	for _, c := range []struct{ as, input, want string }{
		{"csv:URL", "id,url\n1,http://a/1\n2,\"http://a/,2\"\n3,\n4\n", "http://a/1\nhttp://a/,2\n"},
		{"csv:url", "\ufeffurl;id\r\nhttp://a/1;1\r\n", "http://a/1\n"},
		{"csv:2", "1\thttp://a/1\n2\thttp://a/2\n", "http://a/1\nhttp://a/2\n"},
		{"csv:1", "", ""},
		{"csv:1", "http://a/" + strings.Repeat("x", 300_000) + "\nhttp://a/1\n", "http://a/" + strings.Repeat("x", 300_000) + "\nhttp://a/1\n"},
		{"sitemap", sitemap, "http://a/?x=1&y=2\nhttp://a/é\n"},
		{"sitemap", "<sitemapindex><sitemap><loc>http://a/1.xml</loc></sitemap></sitemapindex>", "http://a/1.xml\n"},
		{"cdx", " CDX N b a m\na)/ 20200101000000 http://a/ text/html\n\nb)/ 20200101000000 http://b/ -\n", "http://a/\nhttp://b/\n"},
		{"cdx", " CDX a b\nhttp://a/ 20200101000000\n", "http://a/\n"},
		{"cdx", "a)/ 20200101000000 {\"url\": \"http://a/ b\", \"status\": \"200\"}\n", "http://a/ b\n"},
		{asScrapy, strings.Repeat("0f", 20) + "\r\n\n" + strings.Repeat("a1", 32) + "\n0f0", strings.Repeat("0f", 20) + "\n" + strings.Repeat("a1", 32) + "\n"},
		{asScrapy, "\x00\x14" + strings.Repeat("\n", 20) + "\x00\x02\x00\xff\x00\x14half", strings.Repeat("0a", 20) + "\n00ff\n"},
		{asScrapy, "\x00\x02\x00\xff\x00", "00ff\n"},
		{asScrapy, "", ""},
	} {
		code, out, errOut := cli(t, s, c.input, "check", "--as", c.as)
		if code != 0 || out != c.want || strings.Contains(errOut, "warning") {
			t.Errorf("--as %s of %.80q: %d, %q, %q; want %q", c.as, c.input, code, out, errOut, c.want)
		}
	}
	for _, c := range []struct{ as, input, want string }{
		{"csv:link", "id,url\n1,http://a/1\n", "the table has no column \"link\"\nno line is done\nhint: its columns: id, url\n"},
		{"csv:url", "id,url\n1,\"http://a/\n1\"\n", "an item has a line end in it"},
		{"csv:0", "a\n", "columns are counted from 1"},
		{"csv:9", "id,url\n1,http://a/1\n", "the table has no column 9\n"},
		{"sitemap", "http://a/1\n", "no sitemap: it has neither urlset nor sitemapindex"},
		{"sitemap", "<rss><channel/></rss>", "no sitemap"},
		{"sitemap", "<urlset><url></urlset>", "element <url> closed by </urlset>"},
		{"cdx", " CDX N b\n", "the head of the index names no column a"},
		{"cdx", "a)/ 2020 {\"url\": 1}\n", "line 1 of the index: want a JSON object with a url"},
		{"cdx", "a b\n", "line 1 of the index: want 3 columns or more"},
		{asScrapy, "http://a/\n", "no list of fingerprints"},
		{asScrapy, "0x\n0f\n", "line 1: want a fingerprint of Scrapy"},
		{"csv", "a\n", "want csv:COLUMN (its name, or its number from 1), sitemap, cdx or scrapy"},
		{"tsv:1", "a\n", "want csv:COLUMN"},
	} {
		if code, out, errOut := cli(t, s, c.input, "check", "--as", c.as); code == 0 || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("--as %s of %q: %d, %q, %q; want %q", c.as, c.input, code, out, errOut, c.want)
		}
	}
	// What was done before a fault is said, and how to go on.
	code, out, errOut := cli(t, s, "url,n\nhttp://a/1,1\n\"http://a/\n2\",2\n", "filter", "--as", "csv:url")
	if code == 0 || out != "http://a/1\n" || !strings.Contains(errOut, "lines before 2 are done (the same file once more gives the rest)") {
		t.Errorf("%d, %q, %q", code, out, errOut)
	}
}

// TestOddInput: text that is hardly a list of items is not taken without a word.
func TestOddInput(t *testing.T) {
	s := clienttest.NewServer(t)
	const each = "each of its lines is taken for an item\nhint: "
	for input, want := range map[string]string{
		"http://a/\rhttp://b/\r": "text whose lines end in CR alone: " + each + "`tr '\\r' '\\n' < FILE | urifilter ...` reads it line by line\n",
		sitemap:                  "a sitemap (XML): " + each + "`--as sitemap` takes the items out of it\n",
		"id,url\n1,http://a/\n":  "a table (CSV) with the columns id, url: " + each + "`--as csv:url` takes the items out of it\n",
		" CDX N b a\na)/ 20200101000000 http://a/\n": "an index of an archive (CDX): " + each + "`--as cdx` takes the items out of it\n",
		"http://a/\nhttp://b/\n":                     "",
	} {
		input = strings.ToValidUTF8(input, "")
		for _, command := range []string{"filter", "check"} {
			code, _, errOut := cli(t, s, input, command)
			if code != 0 || (want == "") == strings.Contains(errOut, "warning: ") || !strings.Contains(errOut, want) {
				t.Errorf("%s of %q: %d, %q; want %q", command, input, code, errOut, want)
			}
		}
		for _, quiet := range []string{"--quiet", "--summary=json"} {
			if _, _, errOut := cli(t, s, input, "check", quiet); strings.Contains(errOut, "warning") {
				t.Errorf("%s: %q", quiet, errOut)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "links.csv")
	write(t, file, "url,n\nhttp://c/,1\n")
	if code, out, errOut := cli(t, s, "", "filter", "--as", "csv:url", file); code != 0 || out != "http://c/\n" {
		t.Errorf("%d, %q, %q", code, out, errOut)
	}
}
