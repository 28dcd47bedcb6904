package chores

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two results, each a folder of parts or one file, go through the real benchstat.
func TestCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(folder, name, rate string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
		text := "pkg: bench/" + name + "\ncpu: of " + folder + "\nUnit items/s better=higher\n" + strings.Repeat("Benchmark"+name+"/connections=4 1 "+rate+" items/s\n", 6)
		if err := os.WriteFile(filepath.Join(dir, folder, name+".txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old", "http", "1000000")
	write("old", "redis", "300000")
	write("new", "http", "2000000")
	var out bytes.Buffer
	r := Repo{Dir: "../..", Out: &out}
	for _, old := range []string{"old", "old/http.txt"} {
		out.Reset()
		if err := r.Compare(t.Context(), filepath.Join(dir, old), filepath.Join(dir, "new")); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		if !strings.Contains(out.String(), "+100.00% (p=0.002 n=6)") || strings.Contains(out.String(), "redis") != (old == "old") {
			t.Errorf("%s: got %s", old, out.String())
		}
	}
	for from, want := range map[string]string{"none": "hint: a folder that go tool mage bench has named", "": "there are no results in it"} {
		if err := r.Compare(t.Context(), filepath.Join(dir, from), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", from, err, want)
		}
	}
}
