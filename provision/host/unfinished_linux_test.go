package host

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// A file that a host was writing when it lost its power may hold a secret: the next file that is written to the folder
// removes it, but not one that is being written.
func TestUnfinishedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const other, left, written = ".other-abcdef", unfinished + "secret-abcdef", unfinished + "secret-ghijkl"
	// What is being written has a time ahead, so that the test may take as long as it likes.
	for name, age := range map[string]time.Duration{other: time.Hour, left: time.Hour, written: -time.Hour} {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	f := File{Path: filepath.Join(dir, "secret"), Content: "whole", Owner: strconv.Itoa(os.Getuid()), Group: strconv.Itoa(os.Getgid())}
	if err := WriteFile(t.Context(), here{}, f); err != nil {
		t.Fatal(err)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{other, written, "secret"}) {
		t.Errorf("%q, %v", names, err)
	}
}
