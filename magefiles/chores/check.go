package chores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Check runs what Test leaves out because it takes long or needs a network.
func (r Repo) Check(ctx context.Context) error {
	race, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	steps := []step{
		{name: "gofmt", do: Repo.gofmt},
		{name: "go vet", do: Repo.vet},
		{name: "staticcheck", do: Repo.staticcheck},
		{name: "golangci-lint", do: Repo.golangci},
		{name: "import rules", do: func(r Repo, ctx context.Context) error {
			return r.goTest(ctx, TestOptions{}, nil, "-count=1", "./daemon")
		}},
		{name: "every state of a disk after a power cut", do: func(r Repo, ctx context.Context) error {
			return r.run(ctx, nil, "go", "test", "-count=1", "-timeout=60m", "./daemon/internal/testkit/powerloss", "-exhaustive", "-scripts=60")
		}},
		{name: "other platforms", do: Repo.platforms},
		{name: "govulncheck", do: Repo.govulncheck},
	}
	if race {
		steps = append(steps, step{name: "all tests but those of systems under the race detector", do: func(r Repo, ctx context.Context) error {
			return r.goTest(ctx, TestOptions{}, []string{"CGO_ENABLED=1"}, "-race", untracedSQLite, "-short", "-skip=^"+systemPrefix+"|^"+campaignPrefix, "./...")
		}})
	}
	return r.steps(ctx, steps)
}

// gofmt fails when a file is not formatted.
func (r Repo) gofmt(ctx context.Context) error {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return err
	}
	args := []string{"-l"}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() && !strings.HasPrefix(name, ".") && name != "dist" || strings.HasSuffix(name, ".go") {
			args = append(args, name)
		}
	}
	if len(args) == 1 {
		return nil // gofmt would read standard input
	}
	var list bytes.Buffer
	cmd := r.command(ctx, nil, r.gofmtPath(ctx), args...)
	cmd.Stdout = &list
	if err := cmd.Run(); err != nil {
		return err
	}
	if list.Len() > 0 {
		return fmt.Errorf("not formatted:\n%shint: gofmt -w them", list.String())
	}
	return nil
}

// gofmtPath returns the gofmt of the go command in use, which need not be in PATH.
func (r Repo) gofmtPath(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT")
	cmd.Dir = r.Dir
	root, err := cmd.Output()
	if err == nil {
		path, err := exec.LookPath(filepath.Join(strings.TrimSpace(string(root)), "bin", "gofmt"))
		if err == nil {
			return path
		}
	}
	return "gofmt"
}

// vet vets all packages, and the program that only system tests build.
func (r Repo) vet(ctx context.Context) error {
	return errors.Join(r.run(ctx, nil, "go", "vet", "./...", "./daemon/testdata/greeter"), r.run(ctx, nil, "go", "vet", "-tags=mage", "./magefiles"))
}

func (r Repo) staticcheck(ctx context.Context) error {
	return errors.Join(
		r.run(ctx, nil, "go", "tool", "staticcheck", "./..."),
		r.run(ctx, nil, "go", "tool", "staticcheck", "-tags=mage", "./magefiles"),
	)
}

// golangci runs golangci-lint if it is installed: it is too large to be a tool
// of the module.
func (r Repo) golangci(ctx context.Context) error {
	if _, err := exec.LookPath("golangci-lint"); err != nil {
		fmt.Fprintln(r.Out, "left out: golangci-lint is not installed")
		return nil
	}
	return r.run(ctx, nil, "golangci-lint", "run")
}

// platforms vets, for each platform on which people work, what they run on it: the
// toolkit, the client and the command line. Programs with the client may run on 32 bits, too.
func (r Repo) platforms(ctx context.Context) error {
	args := []string{"vet"}
	for _, top := range []string{"client", "configs", "provision", "systemd", "magefiles"} {
		if _, err := os.Stat(filepath.Join(r.Dir, top)); err == nil {
			args = append(args, "./"+top+"/...")
		}
	}
	args = append(args, "./daemon/urifilter")
	var failed []error
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			fmt.Fprintf(r.Out, "%s/%s\n", system, arch)
			env := []string{"GOOS=" + system, "GOARCH=" + arch, "CGO_ENABLED=0"}
			if err := r.run(ctx, env, "go", args...); err != nil {
				failed = append(failed, fmt.Errorf("%s/%s: %w", system, arch, err))
			}
		}
	}
	fmt.Fprintln(r.Out, "linux/arm: the client")
	if err := r.run(ctx, []string{"GOOS=linux", "GOARCH=arm", "CGO_ENABLED=0"}, "go", "vet", "./client"); err != nil {
		failed = append(failed, fmt.Errorf("linux/arm: %w", err))
	}
	return errors.Join(failed...)
}

// govulncheck fails on a known vulnerability that the code reaches. If its
// database cannot be read, govulncheck says so and does not fail.
func (r Repo) govulncheck(ctx context.Context) error {
	var said bytes.Buffer
	cmd := r.command(ctx, nil, "go", "tool", "govulncheck", "./...")
	cmd.Stdout = io.MultiWriter(r.Out, &said)
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	if err != nil && unreachable(said.String()) {
		fmt.Fprintln(r.Out, "left out: the database of vulnerabilities cannot be reached")
		return nil
	}
	return err
}

// unreachable distinguishes a failed download of the database from what govulncheck
// says when it cannot load the code, or has found something.
func unreachable(said string) bool {
	return strings.Contains("\n"+said, "\ngovulncheck: fetching vulnerabilities")
}
