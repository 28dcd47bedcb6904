package powerloss

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// All states that a cut may leave of a file "x" that held "old" are made and read.
func TestStatesOfADisk(t *testing.T) {
	fail := false
	for _, test := range []struct {
		name string
		do   func(t *testing.T, fs disk.FS, f *disk.File, dir string)
		want []string // contents of x, "-" for none
	}{
		{"written", func(t *testing.T, _ disk.FS, f *disk.File, _ string) { must(t, f.WriteAt("", []byte("new"), 0)) }, []string{"new", "old"}},
		{"synced", func(t *testing.T, _ disk.FS, f *disk.File, _ string) {
			must(t, f.WriteAt("", []byte("new"), 0))
			must(t, f.Sync(""))
		}, []string{"new"}},
		{"a sync that failed, and one that did not", func(t *testing.T, _ disk.FS, f *disk.File, _ string) {
			must(t, f.WriteAt("", []byte("new"), 0))
			fail = true
			if f.Sync("") == nil {
				t.Fatal("no error")
			}
			fail = false
			must(t, f.Sync(""))
		}, []string{"new", "old"}},
		{"written again after it", func(t *testing.T, _ disk.FS, f *disk.File, _ string) {
			must(t, f.WriteAt("", []byte("new"), 0))
			fail = true
			_ = f.Sync("")
			fail = false
			must(t, f.WriteAt("", []byte("new"), 0))
			must(t, f.Sync(""))
		}, []string{"new"}},
		{"longer", func(t *testing.T, _ disk.FS, f *disk.File, _ string) { must(t, f.WriteAt("", []byte("er"), 3)) }, []string{"old", "old\x00\x00", "older"}},
		{"replaced", func(t *testing.T, fs disk.FS, _ *disk.File, dir string) {
			replace(t, fs, dir)
		}, []string{"new", "old"}},
		{"replaced, and the folder synced", func(t *testing.T, fs disk.FS, _ *disk.File, dir string) {
			replace(t, fs, dir)
			must(t, fs.SyncDir("", dir))
		}, []string{"new"}},
		{"removed", func(t *testing.T, fs disk.FS, _ *disk.File, dir string) {
			must(t, fs.Remove("", filepath.Join(dir, "x")))
		}, []string{"-", "old"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			log := NewLog(dir)
			fs := disk.FS{Record: log.Record, Hook: func(string, string) disk.Fault {
				if fail {
					return disk.Fault{Before: errors.New("broken")}
				}
				return disk.Fault{}
			}}
			f, err := fs.OpenFile("", filepath.Join(dir, "x"), os.O_RDWR|os.O_CREATE)
			must(t, err)
			defer f.Close()
			must(t, f.WriteAt("", []byte("old"), 0))
			must(t, f.Sync(""))
			must(t, fs.SyncDir("", dir))
			test.do(t, fs, f, dir)
			d := NewDisk(dir)
			for _, e := range log.Entries() {
				d.Apply(e)
			}
			var got []string
			intact := d.Intact()
			for i := range intact.Ways(1000) {
				to := filepath.Join(t.TempDir(), "disk")
				must(t, intact.Nth(i).Make(to))
				content, err := os.ReadFile(filepath.Join(to, "x"))
				if err != nil {
					content = []byte("-")
				}
				got = append(got, string(content))
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func replace(t *testing.T, fs disk.FS, dir string) {
	t.Helper()
	f, err := fs.OpenFile("", filepath.Join(dir, "y"), os.O_RDWR|os.O_CREATE)
	must(t, err)
	defer f.Close()
	must(t, f.WriteAt("", []byte("new"), 0))
	must(t, f.Sync(""))
	must(t, fs.Rename("", filepath.Join(dir, "y"), filepath.Join(dir, "x")))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
