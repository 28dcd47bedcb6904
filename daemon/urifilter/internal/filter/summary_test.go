package filter

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client/clienttest"
)

func TestSummary(t *testing.T) {
	for _, test := range []struct {
		done      tally
		remembers bool
		want      string
	}{
		{tally{read: 3000, fresh: 1000}, true, "3,000 read, 1,000 new, 2,000 duplicates in 1.5s (2,000 items/s)"},
		{tally{read: 3000, fresh: 1000}, false, "3,000 read, 1,000 new, 2,000 seen in 1.5s (2,000 items/s)"},
		{tally{read: 3000, fresh: 1000, cut: true}, false, "3,000 read, 1,000 new, 2,000 seen in 1.5s (2,000 items/s); then the output was closed"},
		{tally{read: 3000, fresh: 1000, skipped: 1500}, true, "3,000 read, 1,000 new, 500 duplicates, 1,500 skipped in 1.5s (2,000 items/s)"},
	} {
		if got := test.done.summary(1500*time.Millisecond, test.remembers); got != test.want {
			t.Errorf("got  %q\nwant %q", got, test.want)
		}
	}
}

func TestSkipInvalid(t *testing.T) {
	s := clienttest.NewServer(t)
	in := "\ufeff\"a\"\n\nno JSON\n\"b\"\nnull\n\"a\"\n"
	code, out, errOut := cli(t, s, in, "filter", "-f", "ndjson", "--skip-invalid")
	if want := "line 3: skipped: malformed_json: malformed_json\nline 5: skipped: null_item: null_item\n5 read, 2 new, 1 duplicates, 2 skipped in "; code != 0 ||
		out != "\"a\"\n\"b\"\n" || !strings.HasPrefix(errOut, want) {
		t.Errorf("filter: %d, %q, %q", code, out, errOut)
	}
	code, out, errOut = cli(t, s, in+"\"c\"\n", "check", "-f", "ndjson", "--skip-invalid", "--all")
	if want := "6 read, 1 new, 3 seen, 2 skipped in "; code != 0 || out != "seen\t\"a\"\ninvalid\tno JSON\nseen\t\"b\"\ninvalid\tnull\nseen\t\"a\"\nnew\t\"c\"\n" || !strings.Contains(errOut, want) {
		t.Errorf("check: %d, %q, %q", code, out, errOut)
	}
	if code, out, errOut = cli(t, s, in, "filter", "-f", "ndjson", "-t", "ip"); code != 1 || out != "" || !strings.HasPrefix(errOut, "urifilter: line 3: ") {
		t.Errorf("strict: %d, %q, %q", code, out, errOut)
	}
	if code, out, errOut = cli(t, s, in, "filter", "-f", "ndjson", "-t", "ip", "--skip-invalid", "-q"); code != 0 || out != "\"a\"\n\"b\"\n" || errOut != "" {
		t.Errorf("quiet: %d, %q, %q", code, out, errOut)
	}
}

// Lines are counted in the input, whichever batch they came in, and only the first are named.
func TestSkippedLinesOfManyBatches(t *testing.T) {
	s := clienttest.NewServer(t)
	var in strings.Builder
	for i := range 60 {
		fmt.Fprintf(&in, "%s{\n", strings.Repeat(fmt.Sprintln(i), 999)) // every thousandth line
	}
	_, _, errOut := cli(t, s, in.String(), "filter", "-f", "ndjson", "--skip-invalid")
	lines := strings.Split(strings.TrimSpace(errOut), "\n")
	if len(lines) != 22 || !strings.HasPrefix(lines[0], "line 1,000: ") || !strings.HasPrefix(lines[11], "line 12,000: ") ||
		!strings.HasPrefix(lines[19], "line 20,000: ") || lines[20] != "40 more lines were skipped" || !strings.HasPrefix(lines[21], "60,000 read, 60 new, 59,880 duplicates, 60 skipped in ") {
		t.Errorf("got %d lines: %s", len(lines), errOut)
	}
}

// A line too long to be held is skipped by its number, wherever it is.
func TestSkipLineTooLong(t *testing.T) {
	s := clienttest.NewServer(t)
	t.Setenv("URIFILTER_URL", s.URL)
	long := func() io.Reader { return io.LimitReader(endless{}, lineBytes+5<<20) }
	in := io.MultiReader(long(), strings.NewReader("\na\nb\n"), long())
	var out, errOut strings.Builder
	code := run(t.Context(), []string{"check", "--all", "--skip-invalid", "--summary", "json"}, in, &out, &errOut)
	got := readSummary(t, errOut.String())
	tooLong := func(line int64) skippedLine { return skippedLine{line, "item_too_large", "longer than 64 MiB"} }
	if code != 0 || out.String() != "invalid\t\nnew\ta\nnew\tb\ninvalid\t\n" || got.Read != 4 || got.New != 2 || got.Invalid != 2 || got.Lines != 4 ||
		!slices.Equal(got.InvalidItems, []skippedLine{tooLong(1), tooLong(4)}) {
		t.Errorf("%d, %q, %q", code, out.String(), errOut.String())
	}
}

func readSummary(t *testing.T, line string) (s jsonSummary) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &s); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	return s
}

func TestSummaryInJSON(t *testing.T) {
	s := clienttest.NewServer(t)
	for _, quiet := range [][]string{nil, {"-q"}} {
		args := append([]string{"filter", "-f", "ndjson", "--skip-invalid", "--summary=json", "-t", "ip"}, quiet...)
		_, _, errOut := cli(t, s, "1\n\n1\n{\n", args...)
		got := readSummary(t, errOut)
		if got.Filter != "ip" || got.Read != 3 || got.New+got.Duplicates != 2 || got.Invalid != 1 || got.Lines != 4 || len(got.InvalidItems) != 1 || got.InvalidItems[0].Line != 4 || got.Error != "" {
			t.Errorf("%q: %+v", quiet, got)
		}
	}
	// A run that fails says in it what is done.
	s = clienttest.NewServer(t)
	failAt(s, 2, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	code, _, errOut := cli(t, s, strings.Repeat("a\n", 15_000), "filter", "--patience", "0", "--summary", "json")
	first, rest, _ := strings.Cut(errOut, "\n")
	if got := readSummary(t, first); code != 1 || got.Read != 10_000 || got.New != 1 || got.Lines != 10_000 || got.Error == "" || !strings.HasPrefix(rest, "urifilter: ") {
		t.Errorf("%d, %+v, %q", code, got, rest)
	}
	if code, _, errOut = cli(t, s, "", "filter", "--summary", "xml"); code != 2 || !strings.Contains(errOut, "want text or json or none") {
		t.Errorf("another form: %d, %q", code, errOut)
	}
	if code, _, errOut = cli(t, s, "x\n", "filter", "--summary", "none"); code != 0 || errOut != "" {
		t.Errorf("none: %d, %q", code, errOut)
	}
}

// --json asks for output with every command; another flag has its former meaning here.
func TestOldJSONFlagSaysWhatToWrite(t *testing.T) {
	s := clienttest.NewServer(t)
	for _, name := range []string{"filter", "check"} {
		code, out, errOut := cli(t, s, "1\n", name, "--json")
		if code != 2 || out != "" || !strings.Contains(errOut, "--input-format ndjson") || !strings.Contains(errOut, "--summary json") {
			t.Errorf("%s: %d, %q, %q", name, code, out, errOut)
		}
	}
	if n, _ := s.Items("uri", "1"); n != 0 {
		t.Error("the input was sent")
	}
}
