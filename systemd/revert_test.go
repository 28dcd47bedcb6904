package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The units of the way back are those of the program, and systemd reads them.
func TestRenderRevert(t *testing.T) {
	t.Parallel()
	for after, line := range map[time.Duration]string{0: "OnActiveSec=5s", 30 * time.Second: "OnActiveSec=30s", 10 * time.Minute: "OnActiveSec=600s"} {
		files, err := RenderRevert(Uridownloader(), after)
		if err != nil || len(files) != 2 {
			t.Fatal(files, err)
		}
		service, timer := files[0], files[1]
		if service.Name != "uridownloader-revert.service" || !has(string(service.Content), "ExecStart=/bin/sh /opt/uridownloader/revert/script") || !has(string(service.Content), "TimeoutStartSec=infinity") {
			t.Errorf("%s:\n%s", service.Name, service.Content)
		}
		// Enabled, so that a host that restarts meanwhile goes back too.
		if timer.Name != "uridownloader-revert.timer" || !has(string(timer.Content), line) || !has(string(timer.Content), "Unit=uridownloader-revert.service") || !has(string(timer.Content), "WantedBy=timers.target") {
			t.Errorf("%s:\n%s", timer.Name, timer.Content)
		}
		tool, err := exec.LookPath("systemd-analyze")
		if err != nil {
			continue // TestSystemdAccepts says so
		}
		var paths []string
		for _, f := range files {
			path := filepath.Join(t.TempDir(), f.Name)
			if err := os.WriteFile(path, f.Content, 0o600); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
		if out, err := exec.Command(tool, append([]string{"verify"}, paths...)...).CombinedOutput(); err != nil || strings.Contains(string(out), filepath.Dir(paths[1])) {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
	}
	if files, err := RenderRevert(Program{Name: "a b"}, 0); err == nil || files != nil {
		t.Error("a name that no unit can have is taken")
	}
}
