package atomicfile

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Several writers of one file at once do not mix what they write, and none fails because of another one.
func TestWritersAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	var writers sync.WaitGroup
	for n := range 4 {
		content := bytes.Repeat([]byte{'a' + byte(n)}, 1<<16+n)
		writers.Go(func() {
			for range 20 {
				if err := Write(path, content, 0o640); err != nil {
					t.Error(err)
				}
				got, err := os.ReadFile(path)
				if err != nil || len(got) < 1<<16 || len(got) != 1<<16+int(got[0]-'a') || bytes.Count(got, got[:1]) != len(got) {
					t.Errorf("%d bytes, which are of several writers; %v", len(got), err)
				}
			}
		})
	}
	writers.Wait()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A write that fails leaves nothing.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("text"), 0o600); err == nil {
		t.Error("no error")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
