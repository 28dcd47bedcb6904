package main

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// A run waits out a restart of the daemon in the middle of it, and nothing is lost.
func TestRunGoesOnWhenTheDaemonIsBack(t *testing.T) {
	for _, command := range []string{"filter", "check"} {
		dir := t.TempDir()
		p := processtest.Start(t, dir, nil)
		in, typist := io.Pipe()
		reader, out := io.Pipe()
		notices := make(chan string, 10)
		errOut := writerFunc(func(b []byte) (int, error) { notices <- string(b); return len(b), nil })
		code := make(chan int, 1)
		go func() {
			code <- run(t.Context(), []string{command, "--patience", "2m", "-s", p.Addr}, in, out, errOut)
		}()
		line := make([]byte, 2)
		io.WriteString(typist, "a\n")
		if _, err := io.ReadFull(reader, line); err != nil || string(line) != "a\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		if err := p.End(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		io.WriteString(typist, "b\n")
		if got := <-notices; !strings.Contains(got, "waiting up to 2m0s (--patience) for the daemon") || !strings.Contains(got, "refused") {
			t.Errorf("%s: notice %q", command, got)
		}
		processtest.BeginAt(t, p.Addr, dir, nil).AwaitReady()
		if _, err := io.ReadFull(reader, line); err != nil || string(line) != "b\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		typist.Close()
		if c := <-code; c != 0 {
			t.Errorf("%s: exit code %d", command, c)
		}
		if got := <-notices; !strings.HasPrefix(got, "urifilter: the daemon answers again, after ") {
			t.Errorf("%s: notice %q", command, got)
		}
		if got := <-notices; !strings.HasPrefix(got, "2 read, 2 new, ") {
			t.Errorf("%s: summary %q", command, got)
		}
	}
}
