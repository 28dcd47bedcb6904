package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/plot"
)

// Part is what one part of the benchmark measured. Only one goroutine may use it.
//
// It is kept in two files: NAME.json has the machine, the date, the tables and the charts, and the
// docs are made from it alone; NAME.txt has every run in Go's benchmark format, for benchstat.
type Part struct {
	Name    string   `json:"part"`
	Date    string   `json:"date"` // in UTC
	Machine Machine  `json:"machine"`
	Runs    int      `json:"runs"`             // the tables have their medians
	Others  *float64 `json:"others,omitempty"` // share of the cores' time that other programs had; nil: not known
	Tables  []shown  `json:"tables"`
	Charts  []drawn  `json:"charts,omitempty"`

	began   coreTime
	out     io.Writer
	samples bytes.Buffer
	better  map[string]bool // units of samples, and whether more is better
}

type shown struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Rows  Table  `json:"rows"`
}

type drawn struct {
	ID    string     `json:"id"`
	Chart plot.Chart `json:"chart"`
}

// NewPart starts a part, which prints its tables to out.
func NewPart(name string, m Machine, runs int, out io.Writer) *Part {
	return &Part{Name: name, Date: time.Now().UTC().Format(time.DateOnly), Machine: m, Runs: runs, began: coresNow(), out: out, better: map[string]bool{}}
}

// Table prints a table and keeps it under an id, by which the docs refer to it.
func (p *Part) Table(id, title string, t Table) {
	fmt.Fprintf(p.out, "\n### %s\n\n", title)
	t.write(p.out, true)
	p.Tables = append(p.Tables, shown{id, title, t})
}

// Chart keeps a picture, which becomes plots/ID.svg in the docs.
func (p *Part) Chart(id string, c plot.Chart) { p.Charts = append(p.Charts, drawn{id, c}) }

// Value is one figure of a run. For units that end in /s, more is better.
type Value struct {
	N    float64
	Unit string
}

// PerSecond is a rate.
func PerSecond(what string, n float64) Value { return Value{n, what + "/s"} }

// Nanos is a time in nanoseconds for one of what per names.
func Nanos(per string, n float64) Value { return Value{n, "ns/" + per} }

// Took is a time of the kind that what names, such as p99 or start.
func Took(what string, d time.Duration) Value { return Value{float64(d.Nanoseconds()), what + "-ns"} }

// Run keeps one run. Its name consists of words, and of key=value pairs after slashes. Several runs
// with the same name are samples of one measurement.
func (p *Part) Run(name string, values ...Value) {
	fmt.Fprintf(&p.samples, "Benchmark%s 1", strings.ToUpper(name[:1])+strings.ReplaceAll(name[1:], " ", "_"))
	for _, v := range values {
		fmt.Fprintf(&p.samples, " %s %s", strconv.FormatFloat(v.N, 'g', 7, 64), v.Unit)
		p.better[v.Unit] = strings.HasSuffix(v.Unit, "/s")
	}
	p.samples.WriteByte('\n')
}

// text returns all runs with their header, as `go test -bench` writes them.
func (p *Part) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: bench/%s\ncpu: %s\n", runtime.GOOS, runtime.GOARCH, p.Name, p.Machine.CPU)
	for _, unit := range slices.Sorted(maps.Keys(p.better)) {
		better := "lower"
		if p.better[unit] {
			better = "higher"
		}
		fmt.Fprintf(&b, "Unit %s better=%s\n", unit, better)
	}
	b.Write(p.samples.Bytes())
	return b.Bytes()
}

// Empty reports whether the part was left out because a program that it needs is not installed.
func (p *Part) Empty() bool { return len(p.Tables) == 0 }

// Complete returns an error unless the part has exactly the tables and charts that are listed for it.
func (p *Part) Complete(tables, charts []string) error {
	var err error
	for _, c := range []struct {
		what       string
		want, have []string
	}{{"tables", tables, p.tableIDs()}, {"charts", charts, p.chartIDs()}} {
		if !slices.Equal(c.want, c.have) {
			err = errors.Join(err, fmt.Errorf("part %s has the %s %q, and should have %q\nhint: the list of parts in daemon/bench/parts.go", p.Name, c.what, c.have, c.want))
		}
	}
	return err
}

func (p *Part) tableIDs() (ids []string) {
	for _, t := range p.Tables {
		ids = append(ids, t.ID)
	}
	return ids
}

func (p *Part) chartIDs() (ids []string) {
	for _, c := range p.Charts {
		ids = append(ids, c.ID)
	}
	return ids
}

// Save writes both files into a folder, which it creates. The programs that the part started must
// have ended.
func (p *Part) Save(dir string) error {
	p.Others = coresNow().others(p.began)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody
		return err
	}
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, p.Name+".json"), append(text, '\n'), 0o644), //nolint:gosec // for everybody
		os.WriteFile(filepath.Join(dir, p.Name+".txt"), p.text(), 0o644),            //nolint:gosec // for everybody
	)
}

var partName = regexp.MustCompile(`^[a-z]+$`)

// Load reads the parts of a folder, sorted by name, without their samples.
func Load(dir string) ([]*Part, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []*Part
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p := new(Part)
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(p); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if !partName.MatchString(p.Name) || filepath.Base(name) != p.Name+".json" {
			return nil, fmt.Errorf("%s: it is of the part %q", name, p.Name)
		}
		all = append(all, p)
	}
	return all, nil
}

// Copy copies the files of all parts in one folder to another.
func Copy(from, to string) error {
	parts, err := Load(from)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("%s: there is no result in it\nhint: a folder that -out was given, with files such as http.json", from)
	}
	if err := os.MkdirAll(to, 0o755); err != nil { //nolint:gosec // for everybody
		return err
	}
	for _, p := range parts {
		for _, end := range []string{".json", ".txt"} {
			text, err := os.ReadFile(filepath.Join(from, p.Name+end))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, p.Name+end), text, 0o644); err != nil { //nolint:gosec // for everybody
				return err
			}
		}
	}
	return nil
}
