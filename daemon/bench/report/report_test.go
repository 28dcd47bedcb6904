package report

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/plot"
)

var machine = Machine{CPU: "Some CPU", Cores: 2, OS: "Linux 6.1", Go: "Go 1.26", Sync: 0.164}

// result saves a part as if it had been measured, in a folder.
func result(t *testing.T, dir string, rate string) {
	t.Helper()
	var out bytes.Buffer
	p := NewPart("http", machine, 3, &out)
	p.Date = "2026-11-23"
	p.Table("http", "Over HTTP", Table{{"server", "items/s"}, {"none | all", rate}})
	p.Table("latency", "Of a batch", Table{{"server", "p50"}, {"none", "0.1 ms"}})
	p.Chart("rates", plot.Chart{Title: "Rates " + rate, Series: plot.Joined("none", []plot.Point{{X: 1, Y: 2}, {X: 4, Y: 3}})})
	for _, n := range []float64{4.5e6, 1234.56789} {
		p.Run("HTTP/server=durability none/connections=4", PerSecond("items", n), Took("p99", 1500*time.Microsecond), Nanos("op", 25.125))
	}
	if err := p.Complete([]string{"http", "latency"}, []string{"rates"}); err != nil {
		t.Fatal(err)
	}
	if err := p.Save(filepath.Join(dir, Measured)); err != nil {
		t.Fatal(err)
	}
	// The load of other programs on this machine varies, so it is replaced by a fixed one.
	name := filepath.Join(dir, Measured, "http.json")
	text := regexp.MustCompile(` *"others": [0-9.]*,\n`).ReplaceAllString(read(t, name), "")
	write(t, filepath.Dir(name), "http.json", strings.Replace(text, `"tables"`, `"others": 0.29, "tables"`, 1))
	if want := "\n### Over HTTP\n\n| server     | items/s |\n|------------|---------|\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("shown: got %q", out.String())
	}
}

const page = "# Speed\n\nBefore.\n\n<!-- bench:http -->\nold\n<!-- /bench -->\n\nBetween.\n\n<!-- bench:latency -->\n<!-- /bench -->\n\n![Rates](plots/rates.svg)\n\n<!-- bench:later -->\n\n| kept | as it is |\n\n<!-- /bench -->\nBehind.\n"

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, names ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(names...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The tables of measured parts are replaced, with machine and date; the rest stays.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "speed.md", page)
	write(t, dir, "other.md", "nothing of it\n")
	tables, charts := []string{"http", "latency", "later"}, []string{"rates"}
	for _, rate := range []string{"4.50 M", "5.00 M", "5.00 M"} {
		result(t, dir, rate)
		if err := Write(dir, tables, charts); err != nil {
			t.Fatal(err)
		}
		under := " Measured on 2026-11-23 by `go tool mage bench -args=-only=http`, medians of 3 runs: Some CPU, 2 cores, Linux 6.1, Go 1.26, 8 KiB synced in 0.16 ms; other programs had 29 % of the cores' time.*\n\n<!-- /bench -->"
		want := "# Speed\n\nBefore.\n\n<!-- bench:http -->\n\n| server | items/s |\n|---|---|\n| none \\| all | " + rate + " |\n\n*Over HTTP." + under +
			"\n\nBetween.\n\n<!-- bench:latency -->\n\n| server | p50 |\n|---|---|\n| none | 0.1 ms |\n\n*Of a batch." + under + page[strings.Index(page, "\n\n![Rates]"):]
		if got := read(t, dir, "speed.md"); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if got := read(t, dir, "plots", "rates.svg"); !strings.Contains(got, "Rates "+rate) {
			t.Errorf("picture: got %s", got)
		}
	}
	if got := read(t, dir, "other.md"); got != "nothing of it\n" {
		t.Errorf("another page: got %s", got)
	}
}

func TestPagesThatDoNotAgree(t *testing.T) {
	t.Parallel()
	tables, charts := []string{"http", "latency", "later"}, []string{"rates"}
	for want, change := range map[string]*strings.Replacer{
		"table latency of the benchmark is on no page":     strings.NewReplacer("<!-- bench:latency -->\n<!-- /bench -->", ""),
		`a marker for "htp", which is no table`:            strings.NewReplacer("bench:http", "bench:htp"),
		"the table http is there 2 times":                  strings.NewReplacer("bench:latency", "bench:http"),
		"want each <!-- bench:ID --> in a line of its own": strings.NewReplacer("<!-- bench:http -->\n", "<!-- bench:http --> "),
		"chart rates of the benchmark is on no page":       strings.NewReplacer("plots/rates.svg", "rates.svg"),
		`a link to plots/ for "rate", which is no chart`:   strings.NewReplacer("plots/rates.svg", "plots/rate.svg"),
		"<!-- /bench --> behind its table":                 strings.NewReplacer("| kept | as it is |\n\n<!-- /bench -->", ""),
	} {
		dir := t.TempDir()
		result(t, dir, "1")
		changed := change.Replace(page)
		write(t, dir, "speed.md", changed)
		if err := Write(dir, tables, charts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		if got := read(t, dir, "speed.md"); got != changed {
			t.Errorf("%s: the page was changed", want)
		}
	}
}

// The samples are in the form of `go test -bench`, and Copy copies their files whole.
func TestSamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	result(t, dir, "1")
	if err := Copy(filepath.Join(dir, Measured), filepath.Join(dir, "copy")); err != nil {
		t.Fatal(err)
	}
	got := read(t, dir, "copy", "http.txt")
	_, got, _ = strings.Cut(got, "\npkg: ")
	want := "bench/http\ncpu: Some CPU\nUnit items/s better=higher\nUnit ns/op better=lower\nUnit p99-ns better=lower\n" +
		"BenchmarkHTTP/server=durability_none/connections=4 1 4500000 items/s 1500000 p99-ns 25.125 ns/op\n" +
		"BenchmarkHTTP/server=durability_none/connections=4 1 1234.568 items/s 1500000 p99-ns 25.125 ns/op\n"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := Copy(dir, filepath.Join(dir, "copy")); err == nil || !strings.Contains(err.Error(), "no result") {
		t.Errorf("a folder without results: got %v", err)
	}
	write(t, dir, "http.json", `{"part": "redis"}`)
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), `of the part "redis"`) {
		t.Errorf("a result under another name: got %v", err)
	}
}

func TestIncompleteParts(t *testing.T) {
	t.Parallel()
	p := NewPart("http", machine, 3, new(bytes.Buffer))
	if !p.Empty() {
		t.Error("a new part is not empty")
	}
	p.Table("http", "", Table{{"a"}})
	if err := p.Complete([]string{"http", "latency"}, nil); err == nil || !strings.Contains(err.Error(), `tables ["http"], and should have ["http" "latency"]`) {
		t.Errorf("got %v", err)
	}
}

func TestThisMachine(t *testing.T) {
	t.Parallel()
	m, err := ThisMachine(t.TempDir())
	if err != nil || m.CPU == "" || m.Cores < 1 || m.OS == "" || !strings.HasPrefix(m.Go, "Go ") && !strings.HasPrefix(m.Go, "devel") || m.Sync < 0 {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestOtherPrograms(t *testing.T) {
	t.Parallel()
	before := coreTime{known: true, all: 100, busy: 40, ours: 10}
	if got := (coreTime{known: true, all: 120, busy: 55, ours: 20}).others(before); got == nil || *got != 0.25 {
		t.Errorf("got %v, want a quarter", got)
	}
	if got := (coreTime{known: true, all: 120, busy: 45, ours: 20}).others(before); got == nil || *got != 0 {
		t.Errorf("rounded the other way: got %v, want 0", got)
	}
	for _, now := range []coreTime{{}, before} {
		if got := now.others(before); got != nil {
			t.Errorf("%+v: got %v, want nothing", now, *got)
		}
	}
	now := coresNow()
	if _, err := os.Stat("/proc/stat"); err == nil && (!now.known || now.all <= 0 || now.busy <= 0) {
		t.Errorf("this machine: got %+v", now)
	}
}

func TestWhole(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 999.4: "999", 999.5: "1,000", 33_786: "33,786", 1_000_000: "1,000,000"} {
		if got := Whole(n); got != want {
			t.Errorf("%v: got %s, want %s", n, got, want)
		}
	}
}
