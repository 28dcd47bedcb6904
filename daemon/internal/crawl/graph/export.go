package graph

import (
	"bufio"
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// formats are the formats in which a graph can be written.
var formats = map[string]func(g *Graph, w *bufio.Writer) error{
	"csv":     (*Graph).writeCSV,
	"dot":     (*Graph).writeDOT,
	"graphml": (*Graph).writeGraphML,
}

// Formats are the names of the formats that Export knows.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

// Export writes the graph in one of the Formats. Links are read from the file while they are
// written, so that their texts take no memory.
//
//   - graphml: URIs with status and depth, then links with text and rel. Characters that XML cannot
//     have are U+FFFD.
//   - dot: for Graphviz; URIs are the labels, texts the tooltips of links.
//   - csv: one line per link, as in RFC 4180. A cell that a spreadsheet would take for a formula,
//     or that begins with ', gets a ' in front: programs that read it must remove one '.
func (g *Graph) Export(w io.Writer, format string) error {
	write, ok := formats[format]
	if !ok {
		return fmt.Errorf("format %q: want %s", format, strings.Join(Formats(), ", "))
	}
	b := bufio.NewWriterSize(w, 64<<10)
	if err := write(g, b); err != nil {
		return err
	}
	return b.Flush()
}

func (g *Graph) writeCSV(w *bufio.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write([]string{"from", "to", "text", "rel"}); err != nil {
		return err
	}
	if err := g.each(func(_, _ uint32, e Edge) error {
		return c.Write([]string{cell(e.From), cell(e.To), cell(e.Text), cell(e.Rel)})
	}); err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}

// cell keeps spreadsheets from running a text as a formula. Some accept the wide forms of the
// signs, and skip blanks before them. Some readers turn "\r\n" into "\n", so it does so, too.
func cell(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if rest := strings.TrimLeft(text, " \t\r\n\u00a0\u3000"); rest == "" {
		return text
	} else if first := []rune(rest[:min(len(rest), 4)])[0]; strings.ContainsRune("=+-@'|%＝＋－＠", first) {
		return "'" + text
	}
	return text
}

func (g *Graph) writeGraphML(w *bufio.Writer) error {
	fmt.Fprint(w, xml.Header, `<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"`+
		` xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">`, "\n")
	for _, key := range [][3]string{{"uri", "node", "string"}, {"status", "node", "int"}, {"depth", "node", "int"}, {"text", "edge", "string"}, {"rel", "edge", "string"}} {
		fmt.Fprintf(w, "  <key id=\"%s\" for=\"%s\" attr.name=\"%s\" attr.type=\"%s\"/>\n", key[0], key[1], key[0], key[2])
	}
	fmt.Fprint(w, "  <graph id=\"links\" edgedefault=\"directed\" parse.order=\"nodesfirst\">\n")
	for id, uri := range g.uris {
		fmt.Fprintf(w, `    <node id="n%d">`, id)
		data(w, "uri", uri)
		if p := g.page[id]; p.status != 0 {
			fmt.Fprintf(w, `<data key="status">%d</data><data key="depth">%d</data>`, p.status, p.depth)
		}
		fmt.Fprint(w, "</node>\n")
	}
	n := 0
	if err := g.each(func(from, to uint32, e Edge) error {
		fmt.Fprintf(w, `    <edge id="e%d" source="n%d" target="n%d">`, n, from, to)
		n++
		data(w, "text", e.Text)
		data(w, "rel", e.Rel)
		_, err := fmt.Fprint(w, "</edge>\n")
		return err
	}); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, "  </graph>\n</graphml>\n")
	return err
}

// data writes a text of a GraphML element, unless it is empty. Errors are those of the writer,
// which returns them for the next write, too.
func data(w *bufio.Writer, key, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(w, `<data key="%s">`, key)
	_ = xml.EscapeText(w, []byte(text))
	fmt.Fprint(w, "</data>")
}

func (g *Graph) writeDOT(w *bufio.Writer) error {
	fmt.Fprint(w, "digraph links {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=10];\n")
	for id, uri := range g.uris {
		fmt.Fprintf(w, "  n%d [label=%s", id, quoteDOT(uri))
		switch {
		case g.dead(uint32(id)):
			fmt.Fprint(w, ", color=red")
		case !g.page[id].stored:
			fmt.Fprint(w, ", color=gray, fontcolor=gray40")
		}
		fmt.Fprint(w, "];\n")
	}
	if err := g.each(func(from, to uint32, e Edge) error {
		fmt.Fprintf(w, "  n%d -> n%d", from, to)
		if e.Text != "" {
			fmt.Fprintf(w, " [tooltip=%s]", quoteDOT(e.Text))
		}
		_, err := fmt.Fprint(w, ";\n")
		return err
	}); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, "}\n")
	return err
}

// quoteDOT makes a label that shows the text: Graphviz takes \ for an escape and & for an entity,
// and draws characters that XML cannot have.
func quoteDOT(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '&':
			b.WriteString("&amp;")
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t' || r == '\r':
			b.WriteByte(' ')
		case r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff:
			b.WriteRune('\ufffd')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
