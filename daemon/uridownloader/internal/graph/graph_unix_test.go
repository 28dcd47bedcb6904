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
	written := make(chan error, 1)
	go func() {
		written <- into(nil, pipe, func(w io.Writer) error {
			_, err := io.WriteString(w, "a graph")
			return err
		})
	}()
	text, err := os.ReadFile(pipe)
	if err != nil || string(text) != "a graph" {
		t.Errorf("%q, %v", text, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
