package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

const docs = "../../docs"

// The docs show every table and chart of every part exactly as the results beside them have it.
func TestDocsAreAsMeasured(t *testing.T) {
	t.Parallel()
	tables, charts := shown()
	files, err := report.Render(docs, tables, charts)
	if err != nil {
		t.Fatal(err)
	}
	again, err := report.Render(docs, tables, charts)
	if err != nil {
		t.Fatal(err)
	}
	if files["performance.md"] == nil {
		t.Error("performance.md has no tables")
	}
	for name, want := range files {
		if !bytes.Equal(want, again[name]) {
			t.Errorf("%s: rendered differently a second time", name)
		}
		got, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what the results in docs/%s give (%v)\nhint: prose stands outside of the markers; `go tool mage bench -args=\"-from=docs/measured -write\"` writes the tables again", name, report.Measured, err)
		}
	}
}

// The results have exactly the tables and charts of the parts, so that an older form is noticed.
func TestResultsAreOfTheParts(t *testing.T) {
	t.Parallel()
	measured, err := report.Load(filepath.Join(docs, report.Measured))
	if err != nil {
		t.Fatal(err)
	}
	all := parts()
	for _, m := range measured {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == m.Name })
		if i < 0 {
			t.Errorf("docs/%s/%s.json is of no part", report.Measured, m.Name)
			continue
		}
		if err := m.Complete(all[i].tables, all[i].charts); err != nil {
			t.Error(err)
		}
		if samples, err := os.ReadFile(filepath.Join(docs, report.Measured, m.Name+".txt")); err != nil || bytes.Count(samples, []byte("\nBenchmark")) < 2 {
			t.Errorf("samples of %s: %d bytes, %v", m.Name, len(samples), err)
		}
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	if all, err := only(""); err != nil || len(all) != len(parts())-1 {
		t.Errorf("all but browser: got %d, %v", len(all), err)
	}
	if one, err := only("browser"); err != nil || len(one) != 1 {
		t.Errorf("browser: got %v, %v", one, err)
	}
	if some, err := only("redis,http"); err != nil || len(some) != 2 || some[0].name != "redis" || some[1].name != "http" {
		t.Errorf("two: got %v, %v", some, err)
	}
	if _, err := only("http,htp"); err == nil || !strings.Contains(err.Error(), `no part "htp"`) || !strings.Contains(err.Error(), "restart, redis") {
		t.Errorf("unknown: got %v", err)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for rate, want := range map[float64]string{0: "0", 0.00007263: "0.0000726", 0.0001: "0.0001", 0.0216: "0.0216", 0.00123456: "0.00123", 1: "1"} {
		if got := short(rate); got != want {
			t.Errorf("%g: got %s, want %s", rate, got, want)
		}
	}
}
