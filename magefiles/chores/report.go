package chores

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// report reads go test -json and prints a line per package, the output of what
// failed, and the reason why tests were skipped.
type report struct {
	counts
	out io.Writer

	// output of the tests that have not ended, by package and test; the test "" is
	// the package itself.
	pending map[string]map[string]*bytes.Buffer
	ran     map[string]int // tests by package
}

func newReport(out io.Writer) *report {
	return &report{out: out, pending: map[string]map[string]*bytes.Buffer{}, ran: map[string]int{}}
}

// read handles all events of in. It prints other lines, which come from the go command
// itself, as they are.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 && (json.Unmarshal(line, &e) != nil || e.Action == "") {
			fmt.Fprintf(r.out, "%s\n", bytes.TrimRight(line, "\r\n"))
		} else if len(line) > 0 {
			r.handleEvent(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) handleEvent(e event) {
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.buffer(e.Package, e.Test).WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(e)
		}
	}
}

func (r *report) buffer(pkg, test string) *bytes.Buffer {
	if r.pending[pkg] == nil {
		r.pending[pkg] = map[string]*bytes.Buffer{}
	}
	if r.pending[pkg][test] == nil {
		r.pending[pkg][test] = &bytes.Buffer{}
	}
	return r.pending[pkg][test]
}

func (r *report) endTest(e event) {
	r.ran[e.Package]++
	if !strings.Contains(e.Test, "/") {
		r.times = append(r.times, testTime{e.Package + " " + e.Test, e.Elapsed})
	}
	text := r.buffer(e.Package, e.Test).String()
	switch e.Action {
	case "pass":
		r.passed++
		if strings.Contains(text, dataRace) {
			fmt.Fprintf(r.out, "%s", text)
		}
	case "fail":
		r.failed++
		fmt.Fprintf(r.out, "%s", text)
	case "skip":
		r.skipped++
		fmt.Fprintf(r.out, "skip\t%s %s%s\n", e.Package, e.Test, reason(text))
	}
	delete(r.pending[e.Package], e.Test)
}

// dataRace begins the report of the race detector. go test attributes it to whichever test wrote last,
// while those fail that are under way.
const dataRace = "WARNING: DATA RACE"

// reason returns what a test said when it was skipped.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return ""
	}
	return ": " + strings.Join(said, " ")
}

func (r *report) endPackage(e event) {
	switch e.Action {
	case "skip":
		fmt.Fprintf(r.out, "-\t%s\tno tests\n", e.Package)
	case "pass":
		fmt.Fprintf(r.out, "ok\t%s\t%.1fs\t%d tests\n", e.Package, e.Elapsed, r.ran[e.Package])
	case "fail":
		r.broken = append(r.broken, e.Package)
		// A test that has begun and not ended was under way when the process ended.
		for _, test := range slices.Sorted(maps.Keys(r.pending[e.Package])) {
			if test != "" {
				r.failed++
			}
			fmt.Fprintf(r.out, "%s", r.pending[e.Package][test])
		}
		fmt.Fprintf(r.out, "FAIL\t%s\t%.1fs\n", e.Package, e.Elapsed)
	}
	delete(r.pending, e.Package)
}

// verdict returns an error unless tests ran and all went as they must. A package may break
// without a failed test: it does not compile, or its process ends early. With mayBeNone it
// is not an error if no test ran.
func (r *report) verdict(noSkip, mayBeNone bool) error {
	switch {
	case r.failed > 0 || len(r.broken) > 0:
		return fmt.Errorf("tests failed: %s", r.counts)
	case r.skipped > 0 && noSkip:
		return fmt.Errorf("tests were skipped, which URIFILTER_NO_SKIP forbids: %s", r.counts)
	case r.passed == 0 && !mayBeNone:
		return fmt.Errorf("no test ran: %s", r.counts)
	}
	return nil
}
