// Package graph has the graph of links that a crawl finds: the lines of its file, statistics
// (in-degree, PageRank, dead links, hosts), formats for other programs, and a picture of a small
// graph. It finds no links, fetches nothing and writes no files: that is the crawl's task.
package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// File is the name of the graph in the folder of a crawl.
const File = "graph.ndjson"

const (
	// MaxText and MaxRel bound the bytes of a link's text and of its rel.
	MaxText = 1024
	MaxRel  = 256
	// MaxLine is the length of the longest line: two URIs of 64 KiB fit, even fully escaped.
	MaxLine = 1 << 20
)

// Edge is a link. Its line is a JSON object with these four members, in UTF-8, and a line feed. Without the
// line feed it does not count: to append after a crash, first cut the file after its last line feed.
type Edge struct {
	From string `json:"from"` // canonical URI of the page that the link is on
	To   string `json:"to"`   // canonical URI of the link's target
	Text string `json:"text"` // what the page shows of it
	Rel  string `json:"rel"`  // as the page has it
}

// AppendLine appends the line of an edge to dst. Text and rel are cut at their limits; bytes that
// are not UTF-8 become U+FFFD. It returns an error for an edge that lacks an end, or is too long.
func AppendLine(dst []byte, e Edge) ([]byte, error) {
	if e.From == "" || e.To == "" {
		return dst, fmt.Errorf("link from %.100q to %.100q: want both ends", e.From, e.To)
	}
	e.Text, e.Rel = cut(e.Text, MaxText), cut(e.Rel, MaxRel)
	line := bytes.NewBuffer(dst)
	enc := json.NewEncoder(line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return dst, err
	}
	if n := line.Len() - len(dst); n > MaxLine {
		return dst, fmt.Errorf("link from %.100q to %.100q: a line of %d bytes, want %d at most", e.From, e.To, n, MaxLine)
	}
	return line.Bytes(), nil
}

// cut returns the beginning of a text, at most n bytes, without a partial character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.Clone(text[:n])
}
