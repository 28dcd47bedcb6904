package sniff

import (
	"bytes"
	"fmt"
	"strings"
)

// Odd describes text that can be read as lines, but hardly holds an item a line.
type Odd struct {
	What string // such as "a sitemap (XML)"
	As   string // the value of --as that takes the items out of it; "": there is none
	Hint string // the next step where As is ""
}

// columns are names that a table's column of items often has.
var columns = []string{"url", "uri", "link", "loc", "href", "address", "page", "target", "source", "website", "domain", "host", "hostname", "ip"}

// LookOdd returns what a text is that begins with first, if that is no list of items; nil: it may be one.
func LookOdd(first []byte) *Odd {
	first = first[:min(len(first), Bytes)]
	first = bytes.TrimPrefix(first, []byte("\ufeff"))
	if i := bytes.IndexByte(first, '\r'); i >= 0 && i+1 < len(first) && first[i+1] != '\n' && bytes.IndexByte(first, '\n') < 0 {
		return &Odd{What: "text whose lines end in CR alone", Hint: "`tr '\\r' '\\n' < FILE | urifilter ...` reads it line by line"}
	}
	begins := func(some ...string) bool {
		start := strings.ToLower(string(bytes.TrimLeft(first, " \t\r\n")))
		for _, s := range some {
			if strings.HasPrefix(start, s) {
				return true
			}
		}
		return false
	}
	line, _, _ := bytes.Cut(first, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	switch {
	case begins("<urlset", "<sitemapindex") || begins("<?xml") && (bytes.Contains(first, []byte("<urlset")) || bytes.Contains(first, []byte("<sitemapindex"))):
		return &Odd{What: "a sitemap (XML)", As: "sitemap"}
	case begins("<?xml", "<rss", "<feed"):
		return &Odd{What: "XML", Hint: "take the items out of it first, one a line; of a sitemap, `--as sitemap` does"}
	case begins("<!doctype html", "<html"):
		return &Odd{What: "HTML", Hint: "take the links out of it first, one a line"}
	case begins("[", "{\"", "{ \""):
		return &Odd{What: "JSON", Hint: "`--input-format ndjson` reads a JSON value a line; `jq -c '.[]' FILE` makes such lines of a list"}
	case bytes.HasPrefix(line, []byte(" CDX ")) || isCDX(bytes.Fields(line)):
		return &Odd{What: "an index of an archive (CDX)", As: "cdx"}
	}
	return table(string(line))
}

// isCDX reports whether these are the fields of a line of a CDX file: a key, a time of 14 digits, and more.
func isCDX(fields [][]byte) bool {
	return len(fields) >= 3 && len(fields[1]) == 14 && bytes.Trim(fields[1], "0123456789") == nil && bytes.Contains(fields[0], []byte(")"))
}

// table recognizes the head of a table by a column that is named as items are.
func table(head string) *Odd {
	fields := strings.Split(head, Separator(head))
	if len(fields) < 2 || strings.Contains(head, "://") {
		return nil
	}
	for i, f := range fields {
		fields[i] = strings.Trim(strings.TrimSpace(f), `"`)
	}
	for _, want := range columns {
		for _, name := range fields {
			if strings.EqualFold(name, want) {
				return &Odd{What: fmt.Sprintf("a table (CSV) with the columns %s", strings.Join(fields[:min(len(fields), 8)], ", ")), As: "csv:" + name}
			}
		}
	}
	return nil
}

// Separator is what stands between the columns of a table with this head.
func Separator(head string) string {
	for _, s := range []string{",", ";", "\t"} {
		if strings.Contains(head, s) {
			return s
		}
	}
	return ","
}
