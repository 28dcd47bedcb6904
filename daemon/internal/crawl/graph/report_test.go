package graph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func link(from, to string) Edge { return Edge{From: "http://" + from, To: "http://" + to} }

func TestReport(t *testing.T) {
	t.Parallel()
	edges := []Edge{
		link("a/", "a/1"), link("a/", "a/1"), link("a/", "b:8080/"), link("a/1", "a/"), link("a/1", "b:8080/gone"),
		link("b:8080/", "a/"), link("b:8080/", "b:8080/gone"), link("b:8080/", "b:8080/"), link("a/", "c/out"),
	}
	index := `{"uri":"http://a/","status":200,"depth":0}
{"uri":"http://a/1","final":"http://a/one","status":200,"depth":1}
{"uri":"http://b:8080/","status":200,"depth":1}
{"uri":"http://d/alone","status":500,"depth":0}
`
	failed := `{"uri":"http://b:8080/gone","reason":"http_404","status":404,"depth":2}
{"uri":"http://c/out","reason":"robots","status":0,"depth":1}
{"uri":"http://e/","reason":"dns_not_found","status":0,"depth":1}
{"uri":"http://a/1","reason":"timeout","status":0,"depth":1}
`
	dir := crawled(t, edges, index)
	if err := os.WriteFile(filepath.Join(dir, failedFile), []byte(failed), 0o600); err != nil {
		t.Fatal(err)
	}
	g := load(t, dir)
	r := g.Report(10, ByInDegree)
	if got := []int{r.URIs, r.Pages, r.Links, r.Unequal, r.Hosts, r.DeadAll}; !reflect.DeepEqual(got, []int{8, 5, 9, 8, 5, 3}) {
		t.Errorf("counts: %v", got)
	}
	var top []string
	for _, n := range r.Top {
		top = append(top, fmt.Sprint(n.URI, n.InDegree, n.Links, n.Status))
	}
	if want := []string{"http://a/ 2 3 200", "http://b:8080/gone 2 0 404", "http://b:8080/ 1 3 200", "http://c/out 1 0 0", "http://a/1 1 2 200", "http://d/alone 0 0 500", "http://a/one 0 0 200", "http://e/ 0 0 0"}; !sameLines(top, want) {
		t.Errorf("top: %q", top)
	}
	if want := []Host{{"a", 3, 3, 5, 1, 0}, {"b:8080", 2, 1, 3, 2, 1}, {"d", 1, 1, 0, 0, 1}, {"c", 1, 0, 0, 1, 0}, {"e", 1, 0, 0, 0, 1}}; !reflect.DeepEqual(r.ByHost, want) {
		t.Errorf("hosts: %v, want %v", r.ByHost, want)
	}
	if want := []Dead{
		{"http://b:8080/gone", 404, "http_404", 2, []string{"http://a/1", "http://b:8080/"}}, {"http://d/alone", 500, "", 0, []string{}}, {"http://e/", 0, "dns_not_found", 0, []string{}},
	}; !reflect.DeepEqual(r.Dead, want) {
		t.Errorf("dead: %v, want %v", r.Dead, want)
	}
	if one := g.Report(1, ByPageRank); len(one.Top) != 1 || len(one.ByHost) != 1 || len(one.Dead) != 1 || one.DeadAll != 3 {
		t.Errorf("one of each: %+v", one)
	}
}

// sameLines compares without blanks, which fmt.Sprint puts between numbers only.
func sameLines(a, b []string) bool {
	plain := func(lines []string) []string {
		var out []string
		for _, l := range lines {
			out = append(out, strings.ReplaceAll(l, " ", ""))
		}
		slices.Sort(out)
		return out
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

// TestPageRank compares with the definition, iterated from a uniform start on a dense matrix.
func TestPageRank(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 30 {
		var edges []Edge
		for range 3*n + 1 {
			edges = append(edges, link(fmt.Sprint(r.IntN(n+1)), fmt.Sprint(r.IntN(n+2))))
		}
		g := load(t, crawled(t, edges, ""))
		want := defined(g)
		got := g.PageRank()
		sum := 0.0
		for i := range want {
			sum += got[i]
			if math.Abs(got[i]-want[i]) > 2e-6 {
				t.Fatalf("%d URIs, rank of %s: %v, want %v", len(want), g.uris[i], got[i], want[i])
			}
		}
		if math.Abs(sum-1) > 2e-6 {
			t.Errorf("sum of %d ranks: %v", len(want), sum)
		}
		if again := g.PageRank(); !reflect.DeepEqual(again, got) {
			t.Errorf("another run gives %v, before %v", again, got)
		}
	}
	if got := load(t, crawled(t, nil, "")).PageRank(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func defined(g *Graph) []float64 {
	n := len(g.uris)
	ranks := make([]float64, n)
	for i := range ranks {
		ranks[i] = 1 / float64(n)
	}
	for range 300 {
		next := make([]float64, n)
		for from := range n {
			links := slices.DeleteFunc(slices.Clone(g.links(uint32(from))), func(to uint32) bool { return int(to) == from })
			for _, to := range links {
				next[to] += damping * ranks[from] / float64(len(links))
			}
			for to := range n {
				if len(links) == 0 {
					next[to] += damping * ranks[from] / float64(n)
				}
				next[to] += (1 - damping) * ranks[from] / float64(n)
			}
		}
		ranks = next
	}
	return ranks
}

func TestLoadNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	for index, want := range map[string]string{
		`{"uri":"http://a/"}` + "\n{\n": "index.ndjson:2: no record: unexpected end",
		"{}\n":                          "index.ndjson:1: no record: it has no uri",
	} {
		if _, err := Load(crawled(t, sample(), index)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", index, err, want)
		}
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), File) {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestNoRaceManyLinks measures the memory per link and per URI of a large graph.
func TestNoRaceManyLinks(t *testing.T) {
	const links, uris = 250_000, 50_000
	r := rand.New(rand.NewPCG(3, 4))
	edges := make([]Edge, links)
	for i := range edges {
		name := func() string {
			return fmt.Sprintf("http://host%d.example/section/page-%d.html", r.IntN(1000), r.IntN(uris/1000))
		}
		edges[i] = Edge{From: name(), To: name(), Text: "the text of a link"}
	}
	dir := crawled(t, edges, "")
	edges = nil
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	g := load(t, dir)
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := after.HeapAlloc - before.HeapAlloc
	t.Logf("%d links between %d URIs: %d MB held, %d MB allocated meanwhile", g.Links(), g.URIs(), held>>20, (after.TotalAlloc-before.TotalAlloc)>>20)
	if most := uint64(links*4*2 + uris*250); held > most {
		t.Errorf("%d bytes are held, want %d at most: 4 a link, 250 a URI, and the room that slices keep", held, most)
	}
	runtime.ReadMemStats(&before)
	if report := g.Report(10, ByPageRank); report.Links != links || len(report.Top) != 10 || report.Hosts != 1000 {
		t.Errorf("%d links, %d of the top, %d hosts", report.Links, len(report.Top), report.Hosts)
	}
	runtime.ReadMemStats(&after)
	t.Logf("report: %d MB allocated", (after.TotalAlloc-before.TotalAlloc)>>20)
	for _, format := range Formats() {
		if err := g.Export(&fullDisk{1 << 40}, format); err != nil {
			t.Fatal(err)
		}
	}
}
