// Package graph has the graph of links that a crawl finds: the lines of its file, statistics
// (in-degree, PageRank, dead links, hosts), formats for other programs, and a picture of a small
// graph. It finds no links, fetches nothing and writes no files: that is the crawl's task.
package graph

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// indexFile has a line for each page that a crawl has stored, failedFile one for each URI that it gave
// up.
const (
	indexFile  = "index.ndjson"
	failedFile = "failed.ndjson"
)

// Graph is a graph of links in memory: URIs are numbers there, each text is stored once. Links from one
// page to another count as one. It does not change after loading, so that several goroutines may read it.
type Graph struct {
	uris  []string
	ids   map[string]uint32
	start []uint32 // of the links of each URI in to; one more at the end
	to    []uint32
	page  []page // of each URI
	// reason has for each URI that was given up why, as a word.
	reason map[uint32]string

	file  string
	lines int   // of the file
	bytes int64 // of them
	cut   bool
}

// page is what the crawl recorded about a URI.
type page struct {
	stored bool
	status int32 // of HTTP; 0: no answer, or no request
	depth  int32 // -1: unknown
}

// Load reads the graph of the crawl in dir, and the outcomes of its URIs. The crawl may
// run meanwhile: what it adds is ignored.
func Load(dir string) (*Graph, error) {
	g := &Graph{file: filepath.Join(dir, File), ids: map[string]uint32{}, reason: map[uint32]string{}}
	f, err := os.Open(g.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := g.read(f); err != nil {
		return nil, err
	}
	for _, name := range []string{indexFile, failedFile} {
		if err := g.readRecords(filepath.Join(dir, name), name == indexFile); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *Graph) read(from io.Reader) error {
	r := NewReader(g.file, from)
	var links []uint64 // from in the upper half, to in the lower
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		links = append(links, uint64(g.id(e.From))<<32|uint64(g.id(e.To)))
	}
	g.lines, g.bytes, g.cut = len(links), r.Bytes(), r.Cut()
	slices.Sort(links)
	links = slices.Compact(links)
	g.start, g.to = make([]uint32, len(g.uris)+1), make([]uint32, len(links))
	for i, link := range links {
		g.start[link>>32+1]++
		g.to[i] = uint32(link)
	}
	for i := range g.uris {
		g.start[i+1] += g.start[i]
	}
	return nil
}

// id returns the number of a URI, a new one if it has none.
func (g *Graph) id(uri string) uint32 {
	id, ok := g.ids[uri]
	if !ok {
		id = uint32(len(g.uris))
		g.uris, g.page = append(g.uris, uri), append(g.page, page{depth: -1})
		g.ids[uri] = id
	}
	return id
}

// record has the needed parts of a line of either file.
type record struct {
	URI    string `json:"uri"`
	Final  string `json:"final"`
	Status int32  `json:"status"`
	Depth  int32  `json:"depth"`
	Reason string `json:"reason"`
}

// readRecords reads the URIs of a file; a missing file is no error. URIs without any link belong to
// the graph, too.
func (g *Graph) readRecords(path string, stored bool) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := NewReader(path, f)
	for {
		text, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var line record
		if err := json.Unmarshal(text, &line); err != nil {
			return r.fault(fmt.Errorf("no record: %w", err))
		}
		if line.URI == "" {
			return r.fault(errors.New("no record: it has no uri"))
		}
		g.addRecord(line, stored)
	}
}

func (g *Graph) addRecord(line record, stored bool) {
	for _, uri := range []string{line.URI, line.Final} {
		if uri == "" {
			continue
		}
		id := g.id(uri)
		if int(id)+1 == len(g.start) {
			g.start = append(g.start, uint32(len(g.to)))
		}
		if !g.page[id].stored && (stored || g.page[id].status == 0) {
			g.page[id] = page{stored, line.Status, line.Depth}
			if delete(g.reason, id); !stored {
				g.reason[id] = line.Reason
			}
		}
	}
}

// URIs is how many there are; Links is how many lines the file has, and Cut reports whether its
// last line was incomplete.
func (g *Graph) URIs() int  { return len(g.uris) }
func (g *Graph) Links() int { return g.lines }
func (g *Graph) Cut() bool  { return g.cut }

// links returns where the page with this number leads.
func (g *Graph) links(id uint32) []uint32 { return g.to[g.start[id]:g.start[id+1]] }

// each calls visit with every link of the file, in its order, with its text.
func (g *Graph) each(visit func(from, to uint32, e Edge) error) error {
	f, err := os.Open(g.file)
	if err != nil {
		return err
	}
	defer f.Close()
	r := NewReader(g.file, io.LimitReader(f, g.bytes))
	for {
		e, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		from, ok := g.ids[e.From]
		to, also := g.ids[e.To]
		if !ok || !also {
			return r.fault(errors.New("the file was changed while it was read"))
		}
		if err := visit(from, to, e); err != nil {
			return err
		}
	}
}

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

// Reader reads the file of a graph. It is for one goroutine.
type Reader struct {
	name string
	r    *bufio.Reader
	line int
	read int64
	cut  bool
}

// NewReader reads from r; errors use the name.
func NewReader(name string, r io.Reader) *Reader {
	return &Reader{name: name, r: bufio.NewReaderSize(r, 64<<10)}
}

// Next returns the next edge; io.EOF: there is none. Other errors name file and line. A last line
// without its line feed was cut off by a crash, or is still being written: Next ignores it, and Cut
// reports it.
func (r *Reader) Next() (Edge, error) {
	var e Edge
	text, err := r.next()
	if err != nil {
		return e, err
	}
	switch err := json.Unmarshal(text, &e); {
	case err != nil:
		return e, r.fault(fmt.Errorf("no link: %w", err))
	case e.From == "" || e.To == "":
		return e, r.fault(errors.New(`no link: want {"from": URI, "to": URI, "text": ..., "rel": ...}`))
	}
	return e, nil
}

// next returns the text of the next line, which is valid until the next call.
func (r *Reader) next() ([]byte, error) {
	text, err := r.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(text)
		for errors.Is(err, bufio.ErrBufferFull) && len(long) <= MaxLine {
			text, err = r.r.ReadSlice('\n')
			long = append(long, text...)
		}
		text = long
	}
	if len(text) > MaxLine {
		r.line++
		return nil, r.fault(fmt.Errorf("longer than %d bytes", MaxLine))
	}
	switch {
	case err == io.EOF:
		r.cut = len(text) > 0
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("%s: after line %d: %w", r.name, r.line, err)
	}
	r.line++
	r.read += int64(len(text))
	return text, nil
}

func (r *Reader) fault(err error) error { return fmt.Errorf("%s:%d: %w", r.name, r.line, err) }

// Cut reports, at the end, whether the last line had no line feed.
func (r *Reader) Cut() bool { return r.cut }

// Bytes is the length of all lines that were read.
func (r *Reader) Bytes() int64 { return r.read }
