package main

import (
	"bytes"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A machine's service runs one of the commands that keep running; the port is that of the command.
func TestWhatTheServiceRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the units are Linux's")
	}
	file := write(t, t.TempDir(), "u.yaml", "listen: 127.0.0.1:9001\nworker: {listen: '127.0.0.1:9002'}\ndispatch: {listen: '127.0.0.1:9003'}\n")
	for _, c := range []struct {
		run, start, port string
	}{
		{"", "serve", "9001"},
		{"serve", "serve", "9001"},
		{"master --dispatch", "master --dispatch", "9001"},
		{"worker", "worker", "9002"},
		{"dispatch", "dispatch", "9003"},
	} {
		args := []string{"service", "install", "--dry-run", "--config", file}
		if c.run != "" {
			args = append(args, "--run", c.run)
		}
		var out, errOut bytes.Buffer
		if code := run(t.Context(), args, nil, &out, &errOut); code != 3 {
			t.Fatalf("%q: exit code %d: %s", c.run, code, errOut.String())
		}
		for _, want := range []string{"ExecStart=/opt/uridownloader/current/uridownloader " + c.start + " --config " + file, "ListenStream=127.0.0.1:" + c.port} {
			if !strings.Contains(out.String(), want+"\n") {
				t.Errorf("%q: no %s in\n%s", c.run, want, out.String())
			}
		}
	}
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"service", "install", "--dry-run", "--config", filepath.ToSlash(file), "--run", "crawl"}, nil, &out, &errOut); code != 1 ||
		!strings.Contains(errOut.String(), `run "crawl": want serve or master --dispatch or worker or master or dispatch`) {
		t.Errorf("a command that is no daemon: exit code %d: %s", code, errOut.String())
	}
}
