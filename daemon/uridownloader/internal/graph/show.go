package graph

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/graph"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// show writes a report for people.
func show(w io.Writer, r graph.Report, by graph.By) error {
	count := func(n int) string { return human.Count(int64(n)) }
	fmt.Fprintf(w, "%s pages, %s URIs on %s hosts, %s links, %s of them distinct\n", count(r.Pages), count(r.URIs), count(r.Hosts), count(r.Links), count(r.Unequal))
	rows := [][]string{{"PAGERANK", "IN-DEGREE", "LINKS", "STATUS", "URI"}}
	for _, n := range r.Top {
		rows = append(rows, []string{strconv.FormatFloat(n.PageRank, 'f', 6, 64), count(n.InDegree), count(n.Links), status(n.Status), plain(n.URI)})
	}
	fmt.Fprintf(w, "\nURIs by %s\n", by)
	if err := human.Table(w, rows, map[int]bool{4: true}); err != nil {
		return err
	}
	rows = [][]string{{"PAGES", "URIS", "LINKS", "FROM OTHERS", "DEAD", "HOST"}}
	for _, h := range r.ByHost {
		rows = append(rows, []string{count(h.Pages), count(h.URIs), count(h.Links), count(h.From), count(h.Dead), plain(h.Host)})
	}
	fmt.Fprintf(w, "\nHosts, %d of %s\n", len(r.ByHost), count(r.Hosts))
	if err := human.Table(w, rows, map[int]bool{5: true}); err != nil || r.DeadAll == 0 {
		return err
	}
	rows = [][]string{{"WHY", "PAGES THAT LINK TO IT", "URI", "ONE OF THEM"}}
	for _, d := range r.Dead {
		from := "-"
		if len(d.From) > 0 {
			from = plain(d.From[0])
		}
		rows = append(rows, []string{why(d), count(d.Links), plain(d.URI), from})
	}
	fmt.Fprintf(w, "\nDead, %d of %s\n", len(r.Dead), count(r.DeadAll))
	return human.Table(w, rows, map[int]bool{0: true, 2: true, 3: true})
}

func why(d graph.Dead) string {
	if d.Reason != "" {
		return plain(d.Reason)
	}
	return status(d.Status)
}

func status(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// plain removes from a text of a file what would control the terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '\ufffd'
		}
		return r
	}, text)
}
