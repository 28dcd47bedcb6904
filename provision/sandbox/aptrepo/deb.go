package aptrepo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// deb is a binary package of Debian to build.
type deb struct {
	name, version, arch string
	description         string
	files               []file
	scripts             map[string]string // postinst, prerm, postrm
}

type file struct {
	path   string // in the host
	mode   os.FileMode
	text   string
	source string // a file of this machine, used instead of text
}

// build writes the package to a path, with dpkg-deb.
func (d deb) build(ctx context.Context, path string) error {
	root, err := os.MkdirTemp(filepath.Dir(path), ".deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := os.Chmod(root, 0o755); err != nil {
		return err
	}
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: urifilter sandbox <root@localhost>\nSection: database\nPriority: optional\nDescription: %s\n",
		d.name, d.version, d.arch, d.description)
	files := append([]file{{path: "/DEBIAN/control", mode: 0o644, text: control}}, d.files...)
	for name, text := range d.scripts {
		files = append(files, file{path: "/DEBIAN/" + name, mode: 0o755, text: text})
	}
	for _, f := range files {
		if err := f.write(filepath.Join(root, f.path)); err != nil {
			return err
		}
	}
	return run(ctx, "", "dpkg-deb", "--root-owner-group", "-Zgzip", "-z3", "--build", root, path)
}

func (f file) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	text := []byte(f.text)
	if f.source != "" {
		var err error
		if text, err = os.ReadFile(f.source); err != nil {
			return err
		}
	}
	if err := os.WriteFile(path, text, f.mode); err != nil {
		return err
	}
	return os.Chmod(path, f.mode)
}

// run runs a program in a folder ("": the working directory). The error contains its
// standard error.
func run(ctx context.Context, dir, name string, args ...string) error {
	_, err := output(ctx, dir, nil, name, args...)
	return err
}

func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
