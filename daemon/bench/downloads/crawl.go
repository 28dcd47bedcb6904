package downloads

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// Crawl measures the crawler beside colly on the same site of linked pages. Each stores all pages.
func Crawl(o Options, out *report.Part) error {
	o.report = out
	return o.with(func(string) error {
		seed := fmt.Sprintf("http://127.0.0.1:%d/linked/%d/0", o.port, o.Pages)
		list := filepath.Join(o.Dir, "uris")
		if err := os.WriteFile(list, []byte(seed+"\n"), 0o600); err != nil {
			return err
		}
		all := []contestant{
			{"colly, a file each, nothing synced", func(n int) (measured, error) { return o.runPeer(list, n, o.colly, "-follow") }},
			{"uridownloader crawl", func(n int) (measured, error) { return o.crawlOnce(o.binary, seed, n) }},
		}
		if o.Before != "" {
			all = append(all, contestant{"uridownloader crawl, before", func(n int) (measured, error) { return o.crawlOnce(o.Before, seed, n) }})
		}
		t := report.Table{head("of colly")}
		for _, n := range []int{16, 100} {
			if err := o.inTurn(&t, "Crawl", all, n); err != nil {
				return err
			}
		}
		o.report.Table("crawl", fmt.Sprintf("A site of %d linked pages of %d bytes on one host of this machine, which also serves them", o.Pages, pageBytes), t)
		return nil
	})
}

// crawlOnce crawls the whole site. The clock runs from the start of the process to its end.
func (o Options) crawlOnce(binary, seed string, threads int) (m measured, err error) {
	out := filepath.Join(o.Dir, "crawl")
	defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	cmd := exec.Command(binary, "crawl", seed, "--allow-private", "--delay", "0", "--threads", strconv.Itoa(threads),
		"--max-pages", strconv.Itoa(o.Pages), "--out", out)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	start := time.Now()
	most, err := watched(cmd)
	if err != nil {
		return m, fmt.Errorf("%w: %s", err, text.String())
	}
	spent := time.Since(start)
	index, err := os.ReadFile(filepath.Join(out, "index.ndjson"))
	if err != nil {
		return m, err
	}
	if n := bytes.Count(index, []byte{'\n'}); n != o.Pages {
		return m, fmt.Errorf("%d pages are in the index, want %d", n, o.Pages)
	}
	n := float64(o.Pages)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return measured{n / spent.Seconds(), cpu.Seconds() * 1000 / n, most}, nil
}
