package pages

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			relative, _ := filepath.Rel(dir, path)
			all = append(all, filepath.ToSlash(relative))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out", "pages")
	f, err := Open(dir, disk.FS{})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"first", "second, longer", "", "3"} {
		if err := f.Write("h.example/x-01234567.html", []byte(body)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(f.Path("h.example/x-01234567.html")); err != nil || string(got) != body {
			t.Errorf("got %q, %v; want %q", got, err, body)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"x", "/x", "x/", "../x", "x/..", "x/y/z", `x/..\y`, "c:/x", "", "x/.y"} {
		if err := f.Write(bad, nil); err == nil {
			t.Errorf("%q was written, want an error", bad)
		}
	}
}

// TestFaults: whatever operation fails, no incomplete file has the name of a page.
func TestFaults(t *testing.T) {
	t.Parallel()
	const name = "h.example/x-01234567.html"
	for _, label := range []string{"pages-mkdir", "pages-mkdir-syncdir", "pages-create", "pages-write", "pages-sync", "pages-rename", "pages-syncdir"} {
		for _, persisted := range []bool{false, true} {
			t.Run(label, func(t *testing.T) {
				t.Parallel()
				dir, broken, faults := t.TempDir(), errors.New("broken"), 0
				var fault disk.Fault
				f, err := Open(dir, disk.FS{Hook: func(l, _ string) disk.Fault {
					if l == label && fault != (disk.Fault{}) {
						faults++
						return fault
					}
					return disk.Fault{}
				}})
				if err != nil {
					t.Fatal(err)
				}
				if fault.Before = broken; persisted {
					fault = disk.Fault{After: broken}
				}
				err = f.Write(name, []byte("whole"))
				if err == nil {
					err = f.Sync()
				}
				if !errors.Is(err, broken) || faults == 0 {
					t.Fatalf("got %v after %d faults, want the fault", err, faults)
				}
				if got, err := os.ReadFile(f.Path(name)); err == nil && string(got) != "whole" {
					t.Errorf("got %q, want all of it or no file", got)
				}
			})
		}
	}
}

// TestSweep removes leftovers of interrupted writes, and files that do not count.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := Open(dir, disk.FS{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/1.html", "a/2.html", "b/3.html"} {
		if err := f.Write(name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "b", "3.html.tmp"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Sweep(nil); n != 1 || err != nil {
		t.Errorf("got %d, %v; want 1 removed", n, err)
	}
	n, err := f.Sweep(func(name string) bool { return name != "a/2.html" })
	if got, want := files(t, dir), []string{"a/1.html", "b/3.html"}; n != 1 || err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %d removed, %v; want %q and 1", got, n, err, want)
	}
}

// TestConcurrent: many goroutines write and sync concurrently.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	f, err := Open(t.TempDir(), disk.FS{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 10 {
				name := string(rune('a'+j)) + "/" + string(rune('a'+i)) + ".html"
				if err := errors.Join(f.Write(name, []byte(name)), f.Sync()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := files(t, f.dir); len(got) != 80 {
		t.Errorf("got %d files, want 80", len(got))
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	r := Record{URI: "http://h.example/?a=1&b=<中>", File: "h.example/x.html", Status: 200, SHA256: "e3b0c44298fc1c14",
		Time: time.Date(2026, 11, 23, 4, 5, 6, 789_999_999, time.FixedZone("x", 3600))}
	line, err := r.Line()
	if err != nil {
		t.Fatal(err)
	}
	if s := string(line); strings.Count(s, "\n") != 1 || !strings.HasSuffix(s, "}\n") || !strings.Contains(s, `"uri":"http://h.example/?a=1&b=<中>"`) ||
		!strings.Contains(s, `"time":"2026-11-23T03:05:06.789Z"`) || !strings.Contains(s, `"sha256":"e3b0c44298fc1c14`) {
		t.Errorf("got %s", s)
	}
	var back Record
	if err := json.Unmarshal(line, &back); err != nil || back.URI != r.URI {
		t.Errorf("got %+v, %v", back, err)
	}
}

func TestTypes(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]struct {
		extension  string
		text, html bool
	}{
		"text/html": {"html", true, true}, "TEXT/HTML; charset=x": {"html", true, true}, "application/xhtml+xml": {"html", true, true},
		"text/html;;": {"html", true, true}, "text/x-new": {"txt", true, false}, "application/atom+xml": {"xml", true, false}, "application/x-new+json": {"json", true, false},
		"image/svg+xml": {"svg", true, false}, "image/png": {"png", false, false}, "application/pdf": {"pdf", false, false}, "../../x": {"bin", false, false}, "": {"bin", false, false},
	} {
		if e, x, h := Extension(contentType), IsText(contentType), IsHTML(contentType); e != want.extension || x != want.text || h != want.html {
			t.Errorf("%q: got %s %v %v, want %v", contentType, e, x, h, want)
		}
	}
}
