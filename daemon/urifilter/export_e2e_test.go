package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// TestExportAndImport: an exact filter, and one of items that expire, go from one daemon to another
// by a file, which may be cut off anywhere and is then gone on with, and packed.
func TestExportAndImport(t *testing.T) {
	from := processtest.Start(t, t.TempDir(), nil, "--durability", "none")
	to := processtest.Start(t, t.TempDir(), nil, "--durability", "none")
	ask := func(server, stdin string, args ...string) (int, string, string) {
		t.Helper()
		return cli(t, nil, stdin, append(args, "--server", server)...)
	}
	list := func(site string) string {
		var text strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&text, "https://%s.example/%d\n", site, i)
		}
		return text.String()
	}
	for name, kind := range map[string][]string{"jobs": {"--kind", "exact", "--canonical", "safe"}, "news": {"--kind", "timing", "--expire", "1h"}} {
		if code, _, errOut := ask(from.Addr, "", append([]string{"filters", "create", name}, kind...)...); code != 0 {
			t.Fatal(errOut)
		}
		ask(from.Addr, list("a"), "filter", "--filter", name)
		file := filepath.Join(t.TempDir(), "digests")
		if code, out, errOut := ask(from.Addr, "", "export", "--output", file, name); code != 0 || out != "" || !strings.HasPrefix(errOut, "filter "+name+": 5,000 digests in ") {
			t.Fatalf("export: %d, %q, %q", code, out, errOut)
		}
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if code, _, errOut := ask(from.Addr, "", "export", "-o", file, name); code != 1 || !strings.Contains(errOut, "is there, and whole\nhint: ") {
			t.Errorf("once more: %d, %q", code, errOut)
		}
		if code, out, _ := ask(from.Addr, "", "export", name); code != 0 || name == "jobs" && out != string(whole) {
			t.Errorf("to the standard output: %d, %d bytes", code, len(out))
		}
		for _, at := range []int{0, 7, strings.Index(string(whole), "\n") + 1, len(whole) / 2, len(whole) - 3} {
			if err := os.WriteFile(file, whole[:at], 0o600); err != nil {
				t.Fatal(err)
			}
			if at == len(whole)/2 {
				if code, _, errOut := ask(to.Addr, "", "import", "--filter", name+"_cut", file); code != 1 || !strings.Contains(errOut, "the list is cut off after") {
					t.Errorf("import of the first %d bytes: %d, %q", at, code, errOut)
				}
			}
			code, _, errOut := ask(from.Addr, "", "export", "-o", file, name)
			again, err := os.ReadFile(file)
			if code != 0 || err != nil || name == "jobs" && string(again) != string(whole) || len(again) != len(whole) {
				t.Errorf("cut off at %d of %d: %d, %q, %d bytes", at, len(whole), code, errOut, len(again))
			}
		}
		for round, want := range []string{"5,000 read, 5,000 new", "5,000 read, 0 new"} {
			if code, out, errOut := ask(to.Addr, "", "import", "--filter", name, file); code != 0 || out != "" || !strings.HasPrefix(errOut, want) {
				t.Errorf("import %d: %d, %q, %q, want %s", round, code, out, errOut, want)
			}
		}
		for site, want := range map[string]int{"a": 0, "b": 5000} {
			if code, out, errOut := ask(to.Addr, list(site), "check", "--filter", name); code != 0 || strings.Count(out, "\n") != want {
				t.Errorf("%s: of %s are new %d, want %d; %d %s", name, site, strings.Count(out, "\n"), want, code, errOut)
			}
		}
		// What is not that export is not gone on with, nor taken for another's.
		if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		ask(from.Addr, "", "filters", "clear", name, "-y")
		if code, _, errOut := ask(from.Addr, "", "export", "-o", file, name); code != 1 || !strings.Contains(errOut, "was cleared, or made again") {
			t.Errorf("after a clear: %d, %q", code, errOut)
		}
		if code, _, errOut := ask(from.Addr, "", "import", "--filter", name, file); code != 1 || !strings.Contains(errOut, "another secret") {
			t.Errorf("into another: %d, %q", code, errOut)
		}
		if err := os.WriteFile(file, []byte("a\nb\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errOut := ask(from.Addr, "", "export", "-o", file, name); code != 1 || !strings.Contains(errOut, "no export of digests") {
			t.Errorf("over another file: %d, %q", code, errOut)
		}
	}
	if code, _, errOut := ask(from.Addr, "", "export", "uri"); code != 1 || !strings.Contains(errOut, "no digests that can be listed") {
		t.Errorf("of a bit-map: %d, %q", code, errOut)
	}
}

// TestFiltersMerge: a filter that is made like another is merged into it.
func TestFiltersMerge(t *testing.T) {
	p := processtest.Start(t, t.TempDir(), nil, "--durability", "none")
	t.Setenv("URIFILTER_URL", p.Addr)
	for _, args := range [][]string{{"create", "pages", "--capacity", "1000", "--on-full", "warn", "--error-rate", "0.01"}, {"create", "pages_2", "--like", "pages"}} {
		if code, _, errOut := cli(t, nil, "", append([]string{"filters"}, args...)...); code != 0 {
			t.Fatal(errOut)
		}
	}
	cli(t, nil, "a\nb\n", "filter", "--filter", "pages")
	cli(t, nil, "b\nc\n", "filter", "--filter", "pages_2")
	if code, out, errOut := cli(t, nil, "", "filters", "merge", "pages_2", "pages"); code != 0 || out != "pages: has what pages_2 has, 3 items in all\n" || errOut != "" {
		t.Errorf("merge: %d, %q, %q", code, out, errOut)
	}
	if code, out, _ := cli(t, nil, "a\nb\nc\nd\n", "check", "--filter", "pages"); code != 0 || out != "d\n" {
		t.Errorf("check: %d, %q", code, out)
	}
	if code, _, errOut := cli(t, nil, "", "filters", "merge", "uri", "pages"); code != 1 || !strings.Contains(errOut, "another secret") && !strings.Contains(errOut, "is a bit-map for") {
		t.Errorf("of another: %d, %q", code, errOut)
	}
}
