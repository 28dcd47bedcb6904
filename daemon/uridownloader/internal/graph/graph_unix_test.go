//go:build unix

package graph

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// An export goes through a pipe, which stays.
func TestIntoAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(pipe, os.O_RDWR, 0) // both ends: nothing waits for the other one
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const graph = "a graph"
	if err := into(nil, pipe, func(w io.Writer) error {
		_, err := io.WriteString(w, graph)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("%v, %v", info, err)
	}
	text := make([]byte, len(graph))
	if _, err := io.ReadFull(f, text); err != nil || string(text) != graph {
		t.Errorf("%q, %v", text, err)
	}
}

// An export goes to where a link leads, and the link stays: /dev/stdout is one.
func TestIntoALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("something longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := into(nil, link, func(w io.Writer) error {
		_, err := io.WriteString(w, "a graph")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "a graph" {
		t.Errorf("%q, %v", text, err)
	}
}
