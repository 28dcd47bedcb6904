package service

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// Ctrl-C ends what is shown until then with the exit code of the signal, as with the other commands.
func TestLogsAfterCtrlC(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "journalctl"), []byte("#!/bin/sh\necho begun\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	ctx, stop := context.WithCancelCause(t.Context())
	shown, out := io.Pipe()
	cmd := newLogs(filter)
	cmd.SetArgs([]string{"--follow"})
	cmd.SetOut(out)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	if _, err := io.ReadFull(shown, make([]byte, len("begun"))); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, shown) }()
	stop(command.Signaled{Signal: syscall.SIGINT})
	if err := <-ended; !errors.Is(err, command.ExitCode(130)) {
		t.Errorf("ended with %v, want exit code 130", err)
	}
}
