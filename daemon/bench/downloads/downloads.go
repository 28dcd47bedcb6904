// Package downloads measures the downloader: downloads per second, compared with a plain Go client
// and with colly on the same pages, store calls per task, and the cost of queued tasks. It measures
// the program as built, through its HTTP API and its metrics, and knows nothing of its internals.
package downloads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Arguments that make this program run Site or Plain.
const (
	SiteArg  = "download-site"
	PlainArg = "download-plain"
)

// Options of a run.
type Options struct {
	T     testing.TB // ends the programs, if not before
	Runs  int        // their median counts
	Dir   string     // scratch folder, on the disk that is measured
	Pages int        // in one run
	Tasks int        // the most that are queued
	// Before is another build of the program, which is measured in turn with this one; "": none.
	Before string

	binary, colly string
	report        *report.Part
	port          int
}

// perWorker is the number of downloads that one worker runs at once, the default of the program.
const perWorker = 100

// Run measures downloads beside a plain client, colly and Scrapy, and what queued tasks cost.
func Run(o Options, out *report.Part) error {
	o.report = out
	return o.with(func(self string) error { return errors.Join(o.beside(self), o.queued()) })
}

// with builds the programs to be measured, and runs a site while measure runs.
func (o *Options) with(measure func(self string) error) (err error) {
	o.binary, o.colly = filepath.Join(o.Dir, "uridownloader"), filepath.Join(o.Dir, "collybench")
	if err := errors.Join(testserver.Program(o.binary, "./daemon/uridownloader"), testserver.Program(o.colly, "./daemon/bench/downloads/colly")); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	site := exec.Command(self, SiteArg)
	site.Stderr = os.Stderr
	in, err := site.StdinPipe()
	if err != nil {
		return err
	}
	port, err := site.StdoutPipe()
	if err != nil {
		return err
	}
	if err := site.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close(), site.Wait()) }()
	if _, err := fmt.Fscan(port, &o.port); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	return measure(self)
}

// measured is one run of one program.
type measured struct {
	rate   float64 // pages a second
	cpu    float64 // milliseconds of processor time a page
	memory float64 // peak, bytes
}

// contestant is a program that is measured beside others.
type contestant struct {
	name    string
	measure func(concurrency int) (measured, error)
}

// beside runs the programs in turn, so that other load on the machine affects all of them.
func (o Options) beside(self string) error {
	list := filepath.Join(o.Dir, "uris")
	if err := os.WriteFile(list, []byte(pages(o.port, o.Pages)), 0o600); err != nil {
		return err
	}
	perCall := map[string]map[int][]float64{}
	all := []contestant{
		{"plain net/http, bodies synced", func(n int) (measured, error) { return o.runPeer(list, n, self, PlainArg) }},
		{"colly, a file each, nothing synced", func(n int) (measured, error) { return o.runPeer(list, n, o.colly) }},
		{"uridownloader serve", func(n int) (measured, error) { return o.runOwn(n, perCall) }},
	}
	if o.Before != "" {
		older := o
		older.binary = o.Before
		all = append(all, contestant{"uridownloader serve, before", func(n int) (measured, error) { return older.runOwn(n, nil) }})
	}
	if python := scrapyPython(); python != "" {
		all = append(all, contestant{"Scrapy, a file each, nothing synced", func(n int) (measured, error) { return o.runScrapy(python, n) }})
	}
	t := report.Table{head("of plain")}
	workers := []int{1, 2, 4}
	for _, n := range workers {
		if err := o.inTurn(&t, "Download", all, n*perWorker); err != nil {
			return err
		}
	}
	o.report.Table("downloads", fmt.Sprintf("%s pages of %s bytes from %d hosts of this machine, which also serves them; Scrapy has %d of them at most", report.Whole(float64(o.Pages)), report.Whole(pageBytes), hosts, scrapyPages), t)
	calls := report.Table{{"calls of the store a task", "1 worker", "2 workers", "4 workers"}}
	for _, call := range counted {
		row := []string{call.name}
		for _, n := range workers {
			row = append(row, fmt.Sprintf("%.3f", report.Median(perCall[call.name][n*perWorker])))
		}
		calls.Row(row...)
	}
	o.report.Table("storecalls", "For each task of those runs, counted by the program itself", calls)
	return nil
}

func head(share string) []string {
	return []string{"program", "at once", "CPU a page", share, "pages/s", "most memory"}
}

// inTurn runs the programs in turn, reports each run under the name what, and adds their medians to
// t. Shares are relative to the rate of the first program.
func (o Options) inTurn(t *report.Table, what string, programs []contestant, concurrency int) error {
	all := make([][]measured, len(programs))
	for range o.Runs {
		for i, p := range programs {
			m, err := p.measure(concurrency)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			all[i] = append(all[i], m)
			o.report.Run(fmt.Sprintf("%s/program=%s/atonce=%d", what, p.name, concurrency), report.PerSecond("pages", m.rate), report.Value{N: m.cpu, Unit: "cpu-ms/page"}, report.Value{N: m.memory, Unit: "memory-B"})
		}
	}
	first := of(all[0], func(m measured) float64 { return m.rate })
	for i, p := range programs {
		rate := of(all[i], func(m measured) float64 { return m.rate })
		shown, share := report.Whole(rate), fmt.Sprintf("%.0f %%", rate/first*100)
		if rate < 100 {
			shown = strconv.FormatFloat(rate, 'f', 2, 64)
		}
		if rate < first/10 {
			share = fmt.Sprintf("%.1f %%", rate/first*100)
		}
		t.Row(p.name, strconv.Itoa(concurrency), cpu(of(all[i], func(m measured) float64 { return m.cpu })),
			share, shown, fmt.Sprintf("%.0f MB", of(all[i], func(m measured) float64 { return m.memory })/1e6))
	}
	return nil
}

// cpu formats processor time with about three digits.
func cpu(milliseconds float64) string {
	if milliseconds < 1 {
		return fmt.Sprintf("%.3f ms", milliseconds)
	}
	return fmt.Sprintf("%.2f ms", milliseconds)
}

func of(all []measured, value func(measured) float64) float64 {
	values := make([]float64, len(all))
	for i, m := range all {
		values[i] = value(m)
	}
	return report.Median(values)
}

// runPeer runs a program that prints a took.
func (o Options) runPeer(list string, concurrency int, name string, args ...string) (measured, error) {
	return o.runInto(func(out string) *exec.Cmd {
		return exec.Command(name, append(args, "-uris", list, "-out", out, "-concurrency", strconv.Itoa(concurrency))...)
	})
}

// runInto runs a command that puts its pages into a folder and prints a took. A peer may fetch a page
// twice: colly now and then does, of links that two pages have.
func (o Options) runInto(command func(out string) *exec.Cmd) (m measured, err error) {
	out := filepath.Join(o.Dir, "bodies")
	if err := os.Mkdir(out, 0o700); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	cmd := command(out)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, os.Stderr
	most, err := watched(cmd)
	if err != nil {
		return m, err
	}
	var t took
	if err := json.NewDecoder(&text).Decode(&t); err != nil {
		return m, fmt.Errorf("%s: result: %w", cmd.Path, err)
	}
	if t.Pages < o.Pages {
		return m, fmt.Errorf("%s: %d pages, want %d", cmd.Path, t.Pages, o.Pages)
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return measured{float64(o.Pages) / t.Seconds, cpu.Seconds() * 1000 / float64(o.Pages), most}, nil
}
