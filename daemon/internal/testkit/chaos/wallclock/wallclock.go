//go:build unix

// Package wallclock builds the daemon's program with a wall clock that a test can set while the
// program runs. Go reads the clock without any library that could be replaced, so the program
// gets a modified package time.
package wallclock

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Variable is the environment variable that names the file with the number of seconds by which the
// program's wall clock is off.
const Variable = "CHAOS_CLOCK"

// Build compiles the program into dir: that of the working tree, or, if revision is not empty, of that revision of
// git. With steps, its wall clock can be set: it gets a package time whose Now adds what a file says, and follows that
// file. Otherwise the program does not differ; timers and the monotonic clock are left alone.
func Build(dir, revision string, steps bool) (binary, module string, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cr-clawer/urifilter").Output()
	if err != nil {
		return "", "", fmt.Errorf("find the module: %w", err)
	}
	module = strings.TrimSpace(string(out))
	binary = filepath.Join(dir, "urifilter")
	args := []string{"build", "-o", binary}
	if revision != "" {
		source := filepath.Join(dir, "source")
		cmd := exec.Command("sh", "-ec", `mkdir "$1"; git archive -o "$1.tar" "$0"; tar -xf "$1.tar" -C "$1"`, revision, source)
		cmd.Dir, module = module, source
		if said, err := cmd.CombinedOutput(); err != nil {
			return "", "", fmt.Errorf("revision %s: %w\n%s", revision, err, said)
		}
	}
	if steps {
		overlay, err := writeOverlay(dir, module)
		if err != nil {
			return "", "", err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, "./daemon/urifilter")...)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "CGO_ENABLED=0") // as releases are
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build: %w\n%s", err, said)
	}
	return binary, module, nil
}

const (
	nowIs = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	nowBe = "\tsec, nsec, mono := runtimeNow()\n\tsec += WallStep.Load()\n\tif mono == 0 {"

	stepSource = `package time

import "sync/atomic"

// WallStep is added to the wall clock, in seconds.
var WallStep atomic.Int64
`
	followSource = `package main

import (
	"os"
	"strconv"
	"time"
)

func init() {
	follow := func() {
		text, _ := os.ReadFile(os.Getenv("` + Variable + `"))
		if step, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			time.WallStep.Store(step)
		}
	}
	follow()
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			follow()
		}
	}()
}
`
)

// writeOverlay writes the files that replace others in the build, and their list.
func writeOverlay(dir, module string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	library := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(library, "time.go"))
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), nowIs) != 1 {
		return "", fmt.Errorf("%s/time.go is not as expected: no clock can be set", library)
	}
	replaced := map[string]string{}
	for target, text := range map[string]string{
		filepath.Join(library, "time.go"):                        strings.Replace(string(source), nowIs, nowBe, 1),
		filepath.Join(library, "wallstep.go"):                    stepSource,
		filepath.Join(module, "daemon/urifilter/followclock.go"): followSource,
	} {
		file := filepath.Join(dir, filepath.Base(target))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
		replaced[target] = file
	}
	list, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}

// Set sets by how much the wall clock is off of programs whose Variable names this file. It
// renames a file, so that they read no half of one.
func Set(file string, off time.Duration) error {
	next := file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%d", int64(off.Seconds())), 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}
