// Command bench measures the daemon beside its peers and its limits, in one run on one
// machine, and prints the tables of docs/performance.md. It asserts nothing: the
// numbers are read by people, and the ratio to what stands beside them counts.
//
//	go tool mage bench                  everything: some ten minutes, 4 GB of memory
//	go tool mage bench -args=-only=http one part: inprocess, fpr, http, restart, redis, kinds, kindshttp, mariadb, near, clients, downloads, crawl, browser
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/downloads"
)

// settings of a run.
type settings struct {
	runs     int           // of which the median counts
	duration time.Duration // of one run of an HTTP measurement
	dir      string        // scratch folder, on the disk that is measured
	binary   string        // the daemon
	before   string        // an older build, for http, downloads and crawl; "": none
	pages    int           // of one run of the downloader
	tasks    int           // that the downloader has queued at most
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == nullServerArg {
		serveNull()
		return
	}
	if len(os.Args) > 1 && (os.Args[1] == downloads.SiteArg || os.Args[1] == downloads.PlainArg) {
		serve := downloads.Site
		if os.Args[1] == downloads.PlainArg {
			serve = func() error { return downloads.Plain(os.Args[2:]) }
		}
		end(serve())
		return
	}
	end(run())
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	var s settings
	only := flag.String("only", "", "one `part`: inprocess, fpr, http, restart, redis, kinds, kindshttp, mariadb, near, clients, downloads, crawl or browser")
	flag.IntVar(&s.runs, "runs", 5, "how often each thing is measured; the median is printed")
	flag.DurationVar(&s.duration, "duration", 2*time.Second, "length of one HTTP run")
	flag.StringVar(&s.dir, "dir", ".run/bench", "scratch `folder`, on the disk to measure")
	flag.IntVar(&s.pages, "pages", 5000, "how many pages one run of the downloader fetches")
	flag.IntVar(&s.tasks, "tasks", 1_000_000, "how many tasks the downloader has queued at most")
	flag.StringVar(&s.before, "before", "", "another `build`, which is measured in turn with this one: of the daemon for -only=http, of uridownloader for downloads and crawl")
	flag.Parse()
	parts := []struct {
		name string
		run  func(settings) error
		of   string // the part that has it too; it is run alone only where it is named
	}{
		{name: "inprocess", run: inProcess},
		{name: "fpr", run: falsePositives},
		{name: "http", run: overHTTP},
		{name: "restart", run: restart},
		{name: "redis", run: overRedis},
		{name: "kinds", run: besideEachOther},
		{name: "kindshttp", run: kindsServed, of: "kinds"},
		{name: "mariadb", run: kindsOverMariaDB, of: "kinds"},
		{name: "near", run: texts, of: "kinds"},
		{name: "clients", run: overClients},
		{name: "downloads", run: func(s settings) error { return downloads.Run(s.ofDownloads()) }},
		{name: "crawl", run: func(s settings) error { return downloads.Crawl(s.ofDownloads()) }},
		{name: "browser", run: func(s settings) error { return downloads.Browser(s.ofDownloads()) }, of: "downloads"},
	}
	known := false
	for _, p := range parts {
		known = known || *only == p.name
	}
	if *only != "" && !known {
		return fmt.Errorf("-only=%s: want inprocess, fpr, http, restart, redis, kinds, kindshttp, mariadb, near, clients, downloads, crawl or browser", *only)
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	s.dir = dir
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	s.binary = filepath.Join(s.dir, "urifilter")
	build := exec.Command("go", "build", "-o", s.binary, "github.com/cr-clawer/urifilter/daemon/urifilter")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the daemon: %w", err)
	}
	fmt.Printf("%s, %d cores, %s, %s; medians of %d runs\n", processor(), runtime.NumCPU(), runtime.Version(), time.Now().Format(time.DateOnly), s.runs)
	for _, p := range parts {
		if *only != "" && *only != p.name || *only == "" && p.of != "" {
			continue
		}
		if err := p.run(s); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

func (s settings) ofDownloads() downloads.Options {
	return downloads.Options{Runs: s.runs, Dir: s.dir, Pages: s.pages, Tasks: s.tasks, Before: s.before}
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, "\t :\n")
		}
	}
	return runtime.GOARCH
}
