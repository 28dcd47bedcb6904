package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		was, during, others, after string
		inUse                      bool
	}{
		"too low":                    {was: "128\n", during: "4096\n", after: "128\n"},
		"enough":                     {was: "5000\n", during: "5000\n", after: "5000\n"},
		"somebody else sets it":      {was: "128\n", during: "4096\n", others: "8000\n", after: "8000\n"},
		"somebody else sets it back": {was: "128\n", during: "4096\n", others: "100\n", after: "100\n"},
		"somebody else needs it":     {was: "128\n", during: "4096\n", after: "4096\n", inUse: true},
	} {
		t.Run(name, func(t *testing.T) {
			kept := t.TempDir()
			l := limit{name: "kept", path: filepath.Join(kept, "limit"), least: 4096, inUse: func(context.Context) (bool, error) { return c.inUse, nil }}
			write := func(text string) {
				if err := os.WriteFile(l.path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			is := func(want string) {
				t.Helper()
				if got, err := os.ReadFile(l.path); string(got) != want || err != nil {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
			}
			write(c.was)
			for range 2 { // the second sandbox finds it raised
				if err := l.raise(kept); err != nil {
					t.Fatal(err)
				}
				is(c.during)
			}
			if c.others != "" {
				write(c.others)
			}
			if err := l.restore(t.Context(), kept); err != nil {
				t.Fatal(err)
			}
			is(c.after)
		})
	}
	none := limit{name: "kept", path: filepath.Join(t.TempDir(), "none"), least: 1}
	if err := none.raise(t.TempDir()); err == nil {
		t.Error("a limit that does not exist is raised")
	}
}
