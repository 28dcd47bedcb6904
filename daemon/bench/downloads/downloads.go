// Package downloads measures the downloader: downloads a second beside a plain Go client and beside
// colly on the same pages, calls of the store for each task, and what queued tasks cost. It measures
// the program as it is built, over its HTTP API and its metrics, and knows nothing of its inside.
package downloads

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// Arguments of this program that make it Site or Plain.
const (
	SiteArg  = "download-site"
	PlainArg = "download-plain"
)

// Options of a run.
type Options struct {
	Runs  int    // of which the median counts
	Dir   string // scratch folder, on the disk that is measured
	Pages int    // of one run
	Tasks int    // that are queued at most

	binary, colly string
	port          int
}

// perWorker is how many downloads one worker has at once, as is the default of the program.
const perWorker = 100

// Run builds what it measures, and prints its tables.
func Run(o Options) (err error) {
	o.binary, o.colly = filepath.Join(o.Dir, "uridownloader"), filepath.Join(o.Dir, "collybench")
	for _, args := range [][]string{
		{"build", "-o", o.binary, "./daemon/uridownloader"},
		{"build", "-C", "client/collystorage", "-o", o.colly, "./bench"},
	} {
		build := exec.Command("go", args...)
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
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
	out, err := site.StdoutPipe()
	if err != nil {
		return err
	}
	if err := site.Start(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close(), site.Wait()) }()
	if _, err := fmt.Fscan(out, &o.port); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	return errors.Join(o.beside(self), o.queued())
}

// measured is one run of one program.
type measured struct {
	rate   float64 // pages a second
	cpu    float64 // milliseconds of processor time a page
	memory float64 // the most that it had, bytes
}

// beside runs the programs in turn, so that what else the machine does meets all of them.
func (o Options) beside(self string) error {
	list := filepath.Join(o.Dir, "uris")
	if err := os.WriteFile(list, []byte(pages(o.port, o.Pages)), 0o600); err != nil {
		return err
	}
	const own = "uridownloader serve"
	programs := []struct {
		name    string
		measure func(concurrency int) (measured, error)
	}{
		{"plain net/http, bodies synced", func(n int) (measured, error) { return o.runPeer(list, n, self, PlainArg) }},
		{"colly, a file each, nothing synced", func(n int) (measured, error) { return o.runPeer(list, n, o.colly) }},
		{own, nil},
	}
	t := report.Table{{"program", "downloads at once", "of plain", "pages/s", "CPU a page", "most memory"}}
	calls := report.Table{{"calls of the store a task", "1 worker", "2 workers", "4 workers"}}
	perCall := map[string]map[int][]float64{}
	for _, workers := range []int{1, 2, 4} {
		all := map[string][]measured{}
		for range o.Runs {
			for _, p := range programs {
				var m measured
				var err error
				if p.name == own {
					m, err = o.runOwn(workers, perCall)
				} else {
					m, err = p.measure(workers * perWorker)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				all[p.name] = append(all[p.name], m)
			}
		}
		plain := of(all[programs[0].name], func(m measured) float64 { return m.rate })
		for _, p := range programs {
			rate := of(all[p.name], func(m measured) float64 { return m.rate })
			t.Row(p.name, strconv.Itoa(workers*perWorker), fmt.Sprintf("%.0f %%", rate/plain*100), fmt.Sprintf("%.0f", rate),
				fmt.Sprintf("%.2f ms", of(all[p.name], func(m measured) float64 { return m.cpu })),
				fmt.Sprintf("%.0f MB", of(all[p.name], func(m measured) float64 { return m.memory })/1e6))
		}
	}
	t.Print(fmt.Sprintf("Downloads: %d pages of %d bytes from %d hosts of this machine, which also serves them", o.Pages, pageBytes, hosts))
	for _, call := range counted {
		row := []string{call.name}
		for _, workers := range []int{1, 2, 4} {
			row = append(row, fmt.Sprintf("%.3f", report.Median(perCall[call.name][workers])))
		}
		calls.Row(row...)
	}
	calls.Print("Calls of the store for each task of those runs, counted by the program itself")
	return nil
}

func of(all []measured, value func(measured) float64) float64 {
	values := make([]float64, len(all))
	for i, m := range all {
		values[i] = value(m)
	}
	return report.Median(values)
}

// runPeer runs a program that prints a took.
func (o Options) runPeer(list string, concurrency int, name string, args ...string) (m measured, err error) {
	out := filepath.Join(o.Dir, "bodies")
	if err := os.Mkdir(out, 0o700); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	cmd := exec.Command(name, append(args, "-uris", list, "-out", out, "-concurrency", strconv.Itoa(concurrency))...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, os.Stderr
	if err := cmd.Run(); err != nil {
		return m, err
	}
	var t took
	if err := json.NewDecoder(io.Reader(&text)).Decode(&t); err != nil || t.Pages != o.Pages {
		return m, fmt.Errorf("%d pages, want %d: %w", t.Pages, o.Pages, err)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return measured{float64(t.Pages) / t.Seconds, cpu.Seconds() * 1000 / float64(t.Pages), float64(usage.Maxrss) * 1024}, nil
}
