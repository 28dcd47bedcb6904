package bench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/hashes"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/commandtest"
)

func ask(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = commandtest.Program{New}.Run(t.Context(), append([]string{"bench"}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestHash(t *testing.T) {
	dir := t.TempDir()
	input, picture := filepath.Join(dir, "in.txt"), filepath.Join(dir, "a.svg")
	var lines strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&lines, "https://example.com/%d\r\n", i)
	}
	if err := os.WriteFile(input, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := ask(t, "hash", "--items", "3000", "--input", input, "--json", "--plot", picture)
	var results []hashes.Result
	if err := json.Unmarshal([]byte(out), &results); code != 0 || err != nil || len(results) != len(hashes.All()) {
		t.Fatalf("got %d, %v, %d results, %s", code, err, len(results), errOut)
	}
	if r := results[0]; len(r.Rates) != 3 || r.Rates[2].Input != input || r.Rates[2].Items != 2500 || r.Factor != 1 {
		t.Errorf("got %+v", r)
	}
	if text, err := os.ReadFile(picture); err != nil || !strings.Contains(string(text), "MurmurHash3") {
		t.Errorf("picture: %v", err)
	}
	code, out, _ = ask(t, "hash", "--items", "3000", "--csv")
	if rows, err := csv.NewReader(strings.NewReader(out)).ReadAll(); code != 0 || err != nil || len(rows) != 1+2*len(hashes.All()) {
		t.Errorf("csv: got %d, %d rows, %v", code, len(rows), err)
	}
	code, out, _ = ask(t, "hash", "--items", "3000")
	if code != 0 || !strings.Contains(out, "\nXXH3 ") || !strings.Contains(out, "digits: 3,000 items, 3,000 asked for, ideal ") {
		t.Errorf("table: got %d, %s", code, out)
	}
	// What was measured is printed, even if it cannot be drawn.
	code, out, errOut = ask(t, "hash", "--items", "3000", "--plot", filepath.Join(dir, "none", "a.svg"))
	if code != 1 || !strings.Contains(out, "\nXXH3 ") || !strings.Contains(errOut, "no such file") {
		t.Errorf("no folder for the picture: got %d, %s%s", code, out, errOut)
	}
	short := filepath.Join(dir, "short.txt")
	if err := os.WriteFile(short, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"want a name that ends in .png or .svg": {2, []string{"hash", "--plot", "a.gif"}},
		"--items 5: want 2000 to 10000000":      {2, []string{"hash", "--items", "5"}},
		"has 2 different lines: want 2000":      {1, []string{"hash", "--items", "2000", "--input", short}},
		"no such file":                          {1, []string{"hash", "--input", filepath.Join(dir, "none")}},
		"bench: unknown command \"hsah\"":       {2, []string{"hsah"}},
	} {
		if code, _, errOut := ask(t, c.args...); code != c.code || !strings.Contains(errOut, want) {
			t.Errorf("%q: got %d, %q, want %q", c.args, code, errOut, want)
		}
	}
}
