package host

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// here is this machine, as the test's user.
type here struct{ Host }

func (here) Run(ctx context.Context, c Command) (Output, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Script)
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = c.Stdin, &stdout
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return Output{}, &CommandError{Output: Output{Code: exit.ExitCode()}}
	}
	return Output{Stdout: stdout.String()}, err
}

func TestReadFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("stat is that of Linux hosts")
	}
	dir := t.TempDir()
	texts := map[string]string{"a b": "one\ntwo\n", "no end": "x", "empty": "", "odd": "\x00\xff\n\n", "-e": "dash\n"}
	names := []string{filepath.Join(dir, "not there")}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.Join(dir, name))
	}
	files, err := ReadFiles(t.Context(), here{}, names...)
	if err != nil || len(files) != len(texts) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for name, text := range texts {
		if f := files[filepath.Join(dir, name)]; f.Content != text || f.Mode != 0o640 || f.Path != filepath.Join(dir, name) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if err := os.Truncate(names[1], largestFile+1); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFiles(t.Context(), here{}, names...); err == nil || !strings.Contains(err.Error(), "524288 at most") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := ReadFiles(t.Context(), here{}, dir); err == nil || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("a folder: %v", err)
	}
}
