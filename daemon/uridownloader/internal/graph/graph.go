// Package graph is the command graph: it reports on the links that a crawl has found, also while
// the crawl runs. It calls nobody.
package graph

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/graph"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

const defaultTop = 10

type flags struct {
	top     int
	by      string
	format  string
	picture string
	nodes   int
	out     string
	asJSON  bool
}

// NewCommand makes the command.
func NewCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "graph DIR [--top [N]]",
		Short: "Describe the links of a crawl: ranks, hosts, dead links; export or draw them",
		Long: `Describe the links that a crawl has stored in DIR/graph.ndjson: which URIs have the highest PageRank
and the most pages that link to them, which hosts there are, which links are dead (a status of
400 or more, or no answer). DIR is what "crawl" has as --out; the crawl may still run.

With --graph, print all links in the form of another program; with --picture, draw the most
important URIs as an SVG file, which browsers show.`,
		Example: `  # the ten best URIs, the largest hosts, dead links
  uridownloader graph ./crawl

  # the 50 URIs that most pages link to, for a program
  uridownloader graph ./crawl --top 50 --by in-degree --json

  # for Gephi, for Graphviz, for a spreadsheet
  uridownloader graph ./crawl --graph graphml --out links.graphml
  uridownloader graph ./crawl --graph dot | dot -Tsvg > links.svg
  uridownloader graph ./crawl --graph csv --out links.csv

  # a picture of the 60 most important URIs
  uridownloader graph ./crawl --picture links.svg`,
		Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) }
	set := cmd.Flags()
	set.IntVar(&f.top, "top", defaultTop, "how many URIs, hosts and dead links are listed")
	set.Lookup("top").NoOptDefVal = strconv.Itoa(defaultTop)
	set.StringVar(&f.by, "by", string(graph.ByPageRank), "the `order` of URIs: pagerank or in-degree")
	set.StringVar(&f.format, "graph", "", "print the links as this `format`: "+strings.Join(graph.Formats(), ", "))
	set.StringVar(&f.picture, "picture", "", "draw an SVG `file` (.svg); - is the output")
	set.IntVar(&f.nodes, "nodes", 60, fmt.Sprintf("how many `URIs` a picture has, %d at most", graph.MaxPicture))
	set.StringVarP(&f.out, "out", "o", "", "write to this `file` what --graph prints")
	command.JSONFlag(cmd, &f.asJSON)
	complete := func(words ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	_ = cmd.RegisterFlagCompletionFunc("graph", complete(graph.Formats()...))
	_ = cmd.RegisterFlagCompletionFunc("by", complete(string(graph.ByPageRank), string(graph.ByInDegree)))
	return cmd
}

// check takes the number of "--top 20", which comes as an argument because --top can stand alone,
// and refuses contradictory flags.
func (f *flags) check(cmd *cobra.Command, args []string) error {
	changed := cmd.Flags().Changed
	if len(args) == 2 {
		n, err := strconv.Atoi(args[1])
		if err != nil || !changed("top") || f.top != defaultTop {
			return fmt.Errorf("%q: want one folder", args[1])
		}
		f.top = n
	}
	switch {
	case f.top < 1:
		return fmt.Errorf("--top %d: want 1 or more", f.top)
	case f.by != string(graph.ByPageRank) && f.by != string(graph.ByInDegree):
		return fmt.Errorf("--by %q: want %s or %s", f.by, graph.ByPageRank, graph.ByInDegree)
	case f.nodes < 1 || f.nodes > graph.MaxPicture:
		return fmt.Errorf("--nodes %d: want 1 to %d", f.nodes, graph.MaxPicture)
	case changed("graph") && changed("picture"):
		return errors.New("--graph and --picture: want one of them")
	case (changed("graph") || changed("picture")) && (changed("top") || changed("by") || f.asJSON):
		return errors.New("--top, --by and --json describe a graph: want none of them with --graph and --picture")
	case changed("picture") && f.picture != "-" && !strings.EqualFold(filepath.Ext(f.picture), ".svg"):
		return fmt.Errorf("--picture %q: it is an SVG: want a name that ends in .svg, or -", f.picture)
	case changed("out") && !changed("graph"):
		return errors.New("--out is for --graph: add --graph FORMAT")
	case changed("nodes") && !changed("picture"):
		return errors.New("--nodes is for --picture: add --picture FILE")
	}
	return nil
}

func (f *flags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(cmd, args); err != nil {
		return command.UsageError{Err: err}
	}
	if f.format != "" && !slices.Contains(graph.Formats(), f.format) {
		return command.UsageError{Err: fmt.Errorf("--graph %q: want %s", f.format, strings.Join(graph.Formats(), ", "))}
	}
	g, err := graph.Load(args[0])
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w%swant the folder of a crawl, which has %s", err, command.HintMark, graph.File)
	}
	if err != nil {
		return err
	}
	if g.Cut() {
		fmt.Fprintf(cmd.ErrOrStderr(), "uridownloader: %s: its last line is not whole, and left out: the crawl still runs, or was killed\n", filepath.Join(args[0], graph.File))
	}
	switch {
	case f.format != "":
		return into(cmd.OutOrStdout(), f.out, func(w io.Writer) error { return g.Export(w, f.format) })
	case f.picture != "":
		return f.draw(cmd, g)
	}
	report := g.Report(f.top, graph.By(f.by))
	if f.asJSON {
		return command.WriteJSON(cmd.OutOrStdout(), report)
	}
	return show(cmd.OutOrStdout(), report, graph.By(f.by))
}

func (f *flags) draw(cmd *cobra.Command, g *graph.Graph) error {
	shown := 0
	if err := into(cmd.OutOrStdout(), f.picture, func(w io.Writer) (err error) {
		shown, err = g.Picture(w, f.nodes)
		return err
	}); err != nil || f.picture == "-" {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %d of %d URIs\n", f.picture, shown, g.URIs())
	return err
}

// into writes a file in one step, so that it is never incomplete, or into what is there and is no
// file: a pipe, a device, or what a link leads to, such as /dev/stdout; "" and - mean out.
func into(out io.Writer, path string, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return write(out)
	}
	buffered := func(out io.Writer) error {
		w := bufio.NewWriterSize(out, 256<<10)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			return err
		}
		return errors.Join(buffered(f), f.Close())
	}
	return disk.FS{}.WriteFile("export", path, func(f *disk.File) error { return buffered(f.Writer("export")) })
}

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
