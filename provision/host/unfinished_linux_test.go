package host

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// full is a machine on which no file can be larger than a kilobyte.
type full struct{ here }

func (f full) Run(ctx context.Context, c Command) (Output, error) {
	c.Script = "ulimit -f 2\n" + c.Script // blocks of 512 bytes, in sh
	return f.here.Run(ctx, c)
}

// The copy of what was there before is whole, or is made again, once there is room.
func TestKeptCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, kept := filepath.Join(dir, "it's conf"), filepath.Join(dir, "it's conf.before")
	content := bytes.Repeat([]byte("before\n"), 1000)
	if err := os.WriteFile(file, content, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := Keep(t.Context(), full{}, file, kept); err == nil {
		t.Fatal("there was room")
	}
	for range 2 { // the second one changes nothing
		if err := Keep(t.Context(), here{}, file, kept); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(kept)
		if info, _ := os.Stat(kept); err != nil || !bytes.Equal(got, content) || info.Mode() != 0o640 {
			t.Errorf("%d bytes, %v, of %d; %v", len(got), info, len(content), err)
		}
		if err := os.WriteFile(file, []byte("after"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

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
