package chores

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reported reads events, given as lines, into a report.
func reported(t *testing.T, lines ...string) (*report, string) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	return r, out.String()
}

func TestReport(t *testing.T) {
	r, out := reported(t,
		`{"Action":"start","Package":"p"}`,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"noise of a\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: got 1, want 2\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0.1}`,
		`{"Action":"output","Package":"p","Test":"TestC","Output":"=== RUN   TestC\n"}`,
		`{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:9: no redis here\n"}`,
		`{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestC","Elapsed":0}`,
		`{"Action":"output","Package":"p","Output":"FAIL\n"}`,
		`{"Action":"fail","Package":"p","Elapsed":1.25}`,
		`{"Action":"skip","Package":"q","Elapsed":0}`,
		`{"Action":"pass","Package":"r","Test":"TestD","Elapsed":0.1}`,
		`{"Action":"pass","Package":"r","Elapsed":0.5}`,
	)
	if got := r.String(); got != "2 passed, 1 failed, 1 skipped; broken: p" {
		t.Errorf("sum: %s", got)
	}
	for _, want := range []string{"b_test.go:7: got 1, want 2", "skip\tp TestC: c_test.go:9: no redis here\n", "FAIL\tp\t", "-\tq\tno tests", "ok\tr\t0.5s\t1 tests"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "noise of a") {
		t.Errorf("output of a test that passed:\n%s", out)
	}
}

// The race detector's report is in the output of another test than those that fail of it.
func TestReportOfARace(t *testing.T) {
	r, out := reported(t,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.10s)\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"Read at 0x00c0002802b8 by goroutine 18:\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"    testing.go:1712: race detected during execution of test\n"}`,
		`{"Action":"fail","Package":"p","Test":"TestB","Elapsed":0.1}`,
		`{"Action":"fail","Package":"p","Elapsed":1.25}`,
	)
	if got := r.String(); got != "1 passed, 1 failed, 0 skipped; broken: p" || !strings.Contains(out, "Read at 0x00c0002802b8") {
		t.Errorf("sum: %s\n%s", got, out)
	}
}

func TestReportBrokenPackages(t *testing.T) {
	r, out := reported(t,
		`{"ImportPath":"p","Action":"build-output","Output":"p/x.go:1: syntax error\n"}`,
		`{"ImportPath":"p","Action":"build-fail"}`,
		`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
		`{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}`,
		`{"Action":"run","Package":"q","Test":"TestDies"}`,
		`{"Action":"output","Package":"q","Test":"TestDies","Output":"fatal error: all goroutines are asleep\n"}`,
		`{"Action":"fail","Package":"q","Elapsed":0}`,
		`go: something of the go command`,
	)
	if got := r.String(); got != "0 passed, 1 failed, 0 skipped; broken: p q" {
		t.Errorf("sum: %s", got)
	}
	for _, want := range []string{"syntax error", "all goroutines are asleep", "go: something of the go command\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in:\n%s", want, out)
		}
	}
}

func TestVerdict(t *testing.T) {
	const (
		pass = `{"Action":"pass","Package":"p","Test":"TestA"}`
		skip = `{"Action":"skip","Package":"p","Test":"TestB"}`
		fail = `{"Action":"fail","Package":"p","Test":"TestC"}`
		none = `{"Action":"skip","Package":"empty"}`
		dead = `{"Action":"fail","Package":"p"}`
	)
	for _, test := range []struct {
		name   string
		lines  []string
		noSkip bool
		want   string // "" for no error
	}{
		{"passed", []string{pass, none}, true, ""},
		{"skipped", []string{pass, skip}, false, ""},
		{"skipped, forbidden", []string{pass, skip}, true, "skipped"},
		{"failed", []string{pass, fail}, false, "failed"},
		{"broken", []string{pass, dead}, false, "failed"},
		{"nothing", []string{none}, false, "no test ran"},
	} {
		r, _ := reported(t, test.lines...)
		err := r.verdict(test.noSkip, false)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

// TestGoTest runs the real go test on a made-up module.
func TestGoTest(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module made.up\n\ngo 1.26.0\n")
	write("a_test.go", "package a\n\nimport \"testing\"\n\nfunc TestA(*testing.T) {}\n\nfunc TestB(t *testing.T) { t.Skip(\"no moon\") }\n")
	var out strings.Builder
	r := Repo{Dir: dir, Out: &out}
	if err := r.goTest(t.Context(), TestOptions{}, nil, "./..."); err != nil {
		t.Errorf("skips allowed: %v\n%s", err, &out)
	}
	r.NoSkip = true
	if err := r.goTest(t.Context(), TestOptions{}, nil, "./..."); err == nil {
		t.Errorf("skips forbidden: no error\n%s", &out)
	}
	if !strings.Contains(out.String(), "1 passed, 0 failed, 1 skipped\n") || !strings.Contains(out.String(), "no moon") {
		t.Errorf("got:\n%s", &out)
	}
	write("b_test.go", "package a\n\nfunc broken( {}\n")
	out.Reset()
	if err := r.goTest(t.Context(), TestOptions{}, nil, "./..."); err == nil || !strings.Contains(out.String(), "b_test.go:3") {
		t.Errorf("a package that does not compile: %v\n%s", err, &out)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.goTest(canceled, TestOptions{}, nil, "./..."); err == nil {
		t.Error("canceled: no error")
	}
}
