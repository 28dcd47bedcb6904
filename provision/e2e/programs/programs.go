// Package programs builds the programs that the toolkit's tests push to hosts: the real
// daemon, and releases of it that are broken in a chosen way.
package programs

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Modes of a broken release, which is the real program in all but serve.
const (
	Exit      = "exit"      // exits at once
	Silent    = "silent"    // never says that it is ready
	Answer500 = "500"       // says that it is ready, and answers 500
	Hang      = "hang"      // says that it is ready, and never answers
	Late      = "late"      // is ready for two seconds, then exits
	Brief     = "brief"     // answers as it should, and exits eight seconds after the second answer
	Forgetful = "forgetful" // answers, and calls everything new
)

// Real builds the daemon for Linux on this machine's architecture into dir. Different
// marks make programs that differ in their bytes alone, as two releases do.
func Real(ctx context.Context, dir, mark string) (string, error) {
	return marked(ctx, dir, "urifilter", mark)
}

// Downloader builds uridownloader as Real does the filter.
func Downloader(ctx context.Context, dir, mark string) (string, error) {
	return marked(ctx, dir, "uridownloader", mark)
}

// marked appends the mark, which nothing loads, to a program that is linked once.
func marked(ctx context.Context, dir, name, mark string) (string, error) {
	plain := filepath.Join(dir, name)
	if err := build(ctx, plain, "./daemon/"+name, ""); err != nil {
		return "", err
	}
	program, err := os.ReadFile(plain)
	if err != nil {
		return "", err
	}
	path := plain + "-" + mark
	return path, os.WriteFile(path, append(program, mark...), 0o755)
}

// Greeter builds a second program of ours, for Linux on this machine's architecture, into
// dir. One with a fault is never ready, and says why.
func Greeter(ctx context.Context, dir, fault string) (string, error) {
	path := filepath.Join(dir, "greeter"+fault)
	return path, build(ctx, path, "./daemon/testdata/greeter", "-X=main.broken="+fault)
}

// Broken makes a broken release of the real program at the path real.
func Broken(ctx context.Context, dir, real, mode string) (string, error) {
	path, bare := filepath.Join(dir, "broken-"+mode), filepath.Join(dir, "broken") // go build links it only once
	if err := build(ctx, bare, "./provision/e2e/broken", ""); err != nil {
		return "", err
	}
	program, err := os.ReadFile(bare)
	if err != nil {
		return "", err
	}
	payload, err := os.ReadFile(real)
	if err != nil {
		return "", err
	}
	size := binary.BigEndian.AppendUint64(nil, uint64(len(payload)))
	whole := bytes.Join([][]byte{program, payload, size, fmt.Appendf(nil, "%-16s", mode)}, nil)
	return path, os.WriteFile(path, whole, 0o755)
}

func build(ctx context.Context, path, pkg, ldflags string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w "+ldflags, "-o", path, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Root returns the folder of the module.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
