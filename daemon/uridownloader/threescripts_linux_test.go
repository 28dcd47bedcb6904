package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// newspaper is the site of docs/examples/news: three lists a day, with ten articles each, two of
// which are in the next list, too.
type newspaper struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
	fresh chan struct{} // receives a value when a path was requested
}

const articlesAList = 10

func newNewspaper(t *testing.T) *newspaper {
	t.Helper()
	n := &newspaper{asked: map[string]int{}, fresh: make(chan struct{}, 1)}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.asked[r.URL.Path]++
		n.mu.Unlock()
		select {
		case n.fresh <- struct{}{}:
		default:
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		parts := strings.Split(r.URL.Path, "/")
		var number int
		if len(parts) != 4 {
			http.NotFound(w, r)
		} else if _, err := fmt.Sscan(parts[3], &number); err != nil {
			http.NotFound(w, r)
		} else if parts[2] == "list" {
			for i := range articlesAList {
				_, _ = fmt.Fprintf(w, "<li><a href='../article/%d'>an article</a></li>", number*(articlesAList-2)+i)
			}
			_, _ = fmt.Fprintf(w, "<a class=next href='%d'>next</a>", min(3, number+1))
		} else {
			_, _ = fmt.Fprintf(w, "<article><h1>Article %d</h1><p>Of %s.</p></article>", number, parts[1])
		}
	}))
	t.Cleanup(n.Close)
	return n
}

// requests counts the requests by path.
func (n *newspaper) requests() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.asked)
}

// The pages of a day: three lists, and their articles, with those that are in two lists counted once.
const (
	lists    = 3
	articles = lists*articlesAList - 2*2
)

// every is so long that no test meets two days.
const every = 366 * 24 * time.Hour

// released is the released program, which can jail code. It is not running yet.
func released(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, dir: t.TempDir()}
	p.program = filepath.Join(p.dir, "uridownloader")
	if err := testserver.Program(p.program, "."); err != nil {
		t.Fatal(err)
	}
	return p
}

// newsJob is the example, with this site in place of the original, and the released program.
func newsJob(t *testing.T, n *newspaper) (p *process, job string) {
	t.Helper()
	p = released(t)
	job = newsFiles(t, n, p.dir)
	p.start()
	t.Cleanup(p.Kill)
	return p, job
}

// newsFiles writes the files of the example, with this site in place of the original, to a folder.
func newsFiles(t *testing.T, n *newspaper, dir string) (job string) {
	t.Helper()
	example := filepath.Join("..", "..", "docs", "examples", "news")
	files, err := os.ReadDir(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(example, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, file.Name(), strings.NewReplacer("https://news.example", n.URL, "delay: 1s", "delay: 5ms", "every: 24h", "every: "+every.String()).Replace(string(text)))
	}
	return filepath.Join(dir, "news.yaml")
}

// datum is a line of `data`.
type datum struct {
	URI  string           `json:"uri"`
	Data []map[string]any `json:"json_data"`
}

func (p *process) allData(job string) (uris []string, titles []string) {
	p.t.Helper()
	for line := range strings.Lines(p.must("", "data", job, "--json")) {
		var d datum
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		uris = append(uris, d.URI)
		for _, record := range d.Data {
			titles = append(titles, fmt.Sprint(record["title"]))
		}
	}
	slices.Sort(uris)
	slices.Sort(titles)
	return uris, titles
}

// wantDay checks that the data is that of the day: the run, each page and the parsing of each,
// once, and a record for each article.
func (p *process) wantDay(n *newspaper) {
	p.t.Helper()
	day := time.Now().UTC().Truncate(every).Format(time.DateOnly)
	var uris, titles []string
	page := func(path string) {
		uri := n.URL + "/" + day + path
		uris = append(uris, uri, "parse:"+uri)
	}
	uris = append(uris, "generate:"+day+"T00:00:00Z")
	for i := 1; i <= lists; i++ {
		page(fmt.Sprintf("/list/%d", i))
	}
	for i := range articles {
		page(fmt.Sprintf("/article/%d", articlesAList-2+i))
		titles = append(titles, fmt.Sprintf("Article %d", articlesAList-2+i))
	}
	slices.Sort(uris)
	slices.Sort(titles)
	gotURIs, gotTitles := p.allData("news")
	if !slices.Equal(gotURIs, uris) {
		p.t.Errorf("data of %q, want %q", gotURIs, uris)
	}
	if !slices.Equal(gotTitles, titles) {
		p.t.Errorf("records of %q, want %q", gotTitles, titles)
	}
}

// TestSystemThreeScripts runs the example of the manual: everything is generated, downloaded and
// parsed once, even if the job is added again after a restart.
func TestSystemThreeScripts(t *testing.T) {
	t.Parallel()
	n := newNewspaper(t)
	p, job := newsJob(t, n)
	p.must("", "job", "add", job)
	if got := p.settled("news", 1+2*(lists+articles)); got["failed"] > 0 {
		t.Errorf("%v: %s", got, p.must("", "logs", "news"))
	}
	p.wantDay(n)
	for path, times := range n.requests() {
		if times != 1 {
			t.Errorf("%s was asked for %d times", path, times)
		}
	}
	if shown := p.must("", "job", "show", "news", "--json"); !strings.Contains(shown, `"generate":{"code":{"file":"generate.star"`) ||
		!strings.Contains(shown, `"every":"8784h0m0s","filter":"uri_generator"`) || strings.Contains(shown, "def ") {
		t.Errorf("job: %s", shown)
	}
	p.Kill()
	p.start()
	p.must("", "job", "drop", "news", "--confirm", "news")
	n.mu.Lock()
	clear(n.asked)
	n.mu.Unlock()
	p.must("", "job", "add", job)
	if got := p.settled("news", 1); got["done"] != 1 {
		t.Errorf("the second time: %v, want the run alone", got)
	}
	if asked := n.requests(); len(asked) > 0 {
		t.Errorf("the second time %v were asked for", asked)
	}
	if said := p.must("", "job", "generate", "news"); !strings.HasPrefix(said, "generate:") || !strings.Contains(said, " runs next, task ") {
		t.Errorf("by hand: %s", said)
	}
	if got := p.settled("news", 2); got["done"] != 2 {
		t.Errorf("by hand: %v, want a second run", got)
	}
}

// TestSystemThreeScriptsAreKilled kills the program again and again while it runs the example. No
// data of the day is lost or duplicated.
func TestSystemThreeScriptsAreKilled(t *testing.T) {
	t.Parallel()
	n := newNewspaper(t)
	p, job := newsJob(t, n)
	p.must("", "job", "add", job)
	const kills = 12
	for range kills {
		select {
		case <-n.fresh:
		case <-time.After(5 * time.Second): // everything is fetched; the rest is to be parsed
		}
		time.Sleep(rand.N(60 * time.Millisecond)) // somewhere in the work after a request
		p.Kill()
		p.start()
	}
	if got := p.settled("news", 1+2*(lists+articles)); got["failed"] > 0 {
		t.Errorf("%v: %s", got, p.must("", "logs", "news"))
	}
	p.wantDay(n)
	t.Logf("%d requests for %d pages", total(n.requests()), lists+articles)
}

func total(asked map[string]int) (sum int) {
	for _, times := range asked {
		sum += times
	}
	return sum
}

// TestSystemScriptsInPython parses the pages of the example with code in Python: only if the
// operator allows that, and after the code was compiled.
func TestSystemScriptsInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("%v: install python3", err)
	}
	n := newNewspaper(t)
	p, job := newsJob(t, n)
	text, err := os.ReadFile(job)
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.dir, "news.yaml", strings.Replace(string(text), "parse.star", "parse.py", 1))
	const code = `import urllib.parse


def parse(page):
    for article in html.select(page, "article"):
        path = urllib.parse.urlsplit(page.url).path
        emit({"title": article.select("h1")[0].text, "day": path.split("/")[1]})
    follow([a.attrs["href"] for a in html.select(page, "li a, a.next")])
`
	write(t, p.dir, "parse.py", code)
	var out, errOut bytes.Buffer
	if run(t.Context(), []string{"job", "check", job}, nil, &out, &errOut) != 0 || !strings.Contains(out.String(), "parse.py: is compiled by the master, when the job is added") {
		t.Errorf("check: %s, %s", &out, &errOut)
	}
	if exit, _, errOut := p.run("", "job", "add", job); exit != 1 || !strings.Contains(errOut, "parse.py: no code in Python is run here: the operator may set script.python") {
		t.Errorf("without a Python: %d, %s", exit, errOut)
	}
	p.Kill()
	p.start("--config", write(t, p.dir, "settings.yaml", "script: {python: "+python+"}\n"))
	write(t, p.dir, "parse.py", strings.Replace(code, "[0].text", "[0.text", 1))
	if exit, _, errOut := p.run("", "job", "add", job); exit != 1 || !strings.Contains(errOut, "parse.py:7:") {
		t.Errorf("a fault: %d, %s", exit, errOut)
	}
	write(t, p.dir, "parse.py", code)
	p.must("", "job", "add", job)
	if got := p.settled("news", 1+2*(lists+articles)); got["failed"] > 0 {
		t.Errorf("%v: %s", got, p.must("", "logs", "news"))
	}
	p.wantDay(n)
}
