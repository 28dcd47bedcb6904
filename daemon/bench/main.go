// Command bench measures the daemon beside its peers and its limits, in one run on one
// machine, prints tables, and writes them into docs. It asserts nothing: the
// numbers are read by people, and the ratio to what stands beside them counts.
//
//	go tool mage bench                                all but the part browser: half an hour, 4 GB of memory
//	go tool mage bench -args=-only=http,redis         some parts
//	go tool mage bench -args="-only=http -write"      and their tables and charts in docs
//	go tool mage bench:compare .run/results/A docs/measured   what differs, by benchstat
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/downloads"
	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// settings are the settings of a run.
type settings struct {
	runs     int           // their median counts
	duration time.Duration // of one run of an HTTP measurement
	dir      string        // scratch folder, on the disk that is measured
	binary   string        // the daemon
	before   string        // an older build, for http, downloads and crawl; "": none
	pages    int           // of one run of the downloader
	tasks    int           // the most that the downloader has queued
	out      *report.Part  // receives what the current part measures
	stand    *stand        // of the current part
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
	list := flag.String("only", "", "comma-separated `parts`: "+partNames()+"; all but browser if not given")
	out := flag.String("out", "", "`folder` for the results, for bench:compare and -from; .run/results/TIME if not given")
	from := flag.String("from", "", "measure nothing: take the results of a `folder` that -out was given; with -write")
	write := flag.Bool("write", false, "write tables and charts of these parts into docs")
	flag.IntVar(&s.runs, "runs", 5, "how often each thing is measured; tables have the median")
	flag.DurationVar(&s.duration, "duration", 2*time.Second, "length of one HTTP run")
	flag.StringVar(&s.dir, "dir", ".run/bench", "scratch `folder`, on the disk to measure")
	flag.IntVar(&s.pages, "pages", 5000, "how many pages one run of the downloader fetches")
	flag.IntVar(&s.tasks, "tasks", 1_000_000, "how many tasks the downloader has queued at most")
	flag.StringVar(&s.before, "before", "", "another `build`, which is measured in turn with this one: of the daemon for -only=http, of uridownloader for downloads and crawl")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("%q: want flags only\nhint: go tool mage bench -args=-help lists them", flag.Arg(0))
	}
	chosen, err := only(*list)
	if err != nil {
		return err
	}
	switch {
	case *from != "" && !*write:
		return errors.New("-from is for -write\nhint: add -write, or leave -from out to measure")
	case *from == "":
		*from = cmp.Or(*out, filepath.Join(".run", "results", time.Now().UTC().Format("2006-01-02-150405")))
		if err := measure(s, chosen, *from); err != nil {
			return err
		}
	}
	if !*write {
		fmt.Printf("\nresults: %s\n", *from)
		return nil
	}
	const docs = "docs"
	if err := report.Copy(*from, filepath.Join(docs, report.Measured)); err != nil {
		return err
	}
	tables, charts := shown()
	return report.Write(docs, tables, charts)
}

// measure runs parts and saves what each found.
func measure(s settings, chosen []part, out string) error {
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
	if err := testserver.Program(s.binary, "github.com/cr-clawer/urifilter/daemon/urifilter"); err != nil {
		return err
	}
	machine, err := report.ThisMachine(s.dir)
	if err != nil {
		return err
	}
	fmt.Printf("%s; medians of %d runs\n", machine, s.runs)
	for _, p := range chosen {
		s.out = report.NewPart(p.name, machine, s.runs, os.Stdout)
		s.stand = &stand{part: p.name, dir: s.dir}
		if err := s.stand.measure(func() error { return p.run(s) }); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if s.out.Empty() {
			continue
		}
		if err := s.out.Complete(p.tables, p.charts); err != nil {
			return err
		}
		if err := s.out.Save(out); err != nil {
			return err
		}
	}
	return nil
}

func (s settings) ofDownloads() downloads.Options {
	return downloads.Options{T: s.stand, Runs: s.runs, Dir: s.dir, Pages: s.pages, Tasks: s.tasks, Before: s.before}
}
