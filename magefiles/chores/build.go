package chores

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// servers are the platforms that the daemon is deployed to, all on Linux.
func servers() []string { return []string{"amd64", "arm64"} }

// Build compiles the programs for this machine. Their version comes from git if git answers.
func (r Repo) Build(ctx context.Context) error {
	for _, p := range []served{filterProgram(), downloaderProgram()} {
		if err := r.BuildFor(ctx, p.pkg, runtime.GOOS, runtime.GOARCH, p.binary()); err != nil {
			return err
		}
	}
	return nil
}

// BuildLinux compiles the programs that servers run to dist/NAME-linux-ARCH.
func (r Repo) BuildLinux(ctx context.Context) error {
	for _, p := range []served{filterProgram(), downloaderProgram()} {
		for _, arch := range servers() {
			out := filepath.Join("dist", p.name+"-linux-"+arch)
			if err := r.BuildFor(ctx, p.pkg, "linux", arch, out); err != nil {
				return err
			}
			fmt.Fprintln(r.Out, filepath.ToSlash(out))
		}
	}
	return nil
}

// daemon is the package of the program that is built unless another one is named.
const daemon = "./daemon/urifilter"

// BuildFor compiles the program of a package for a platform to out, which is relative to the tree or
// absolute. The same commit gives the same bytes, wherever the tree is and whoever
// builds it. For Linux the program is static: it runs on any distribution.
func (r Repo) BuildFor(ctx context.Context, pkg, goos, goarch, out string) error {
	return r.build(ctx, pkg, goos, goarch, out, r.buildVCS(ctx))
}

// BuildRelease is BuildFor for a server. It also returns what identifies the content of the program:
// the SHA-256, in hexadecimal, that it would have without the state of the working tree, which
// go build stamps into it. A commit, or a file that lies in the tree, changes the stamp and not the
// content, unless it goes into the program.
func (r Repo) BuildRelease(ctx context.Context, pkg, goarch, out string) (content string, err error) {
	if err := r.BuildFor(ctx, pkg, "linux", goarch, out); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "urifilter-build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	bare := filepath.Join(dir, "bare")
	if err := r.build(ctx, pkg, "linux", goarch, bare, "false"); err != nil {
		return "", err
	}
	program, err := os.ReadFile(bare)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(program)
	return hex.EncodeToString(sum[:]), nil
}

// Release runs magefiles/release, a program of its own so that no other target waits for what it needs.
func (r Repo) Release(ctx context.Context, version, platforms, key string) error {
	args := []string{"run", "./magefiles/release", "-version=" + version}
	if platforms != "" {
		args = append(args, "-platforms="+platforms)
	}
	if key != "" {
		args = append(args, "-key="+key)
	}
	return r.run(ctx, nil, "go", args...)
}

// build compiles; vcs says whether the commit is stamped into the program.
func (r Repo) build(ctx context.Context, pkg, goos, goarch, out, vcs string) error {
	env := []string{"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + goarch, "GOAMD64=v1", "GOARM64=v8.0"}
	if err := r.run(ctx, env, "go", "build", "-trimpath", "-buildvcs="+vcs, "-ldflags=-s -w -buildid=", "-o", out, pkg); err != nil {
		return err
	}
	if goos != "linux" {
		return nil
	}
	if !filepath.IsAbs(out) {
		out = filepath.Join(r.Dir, out)
	}
	return static(out)
}

// static returns an error for a program that needs a loader, and therefore the libraries of
// the machine on which it was built.
func static(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s: wants a loader: not a static program", path)
		}
	}
	return nil
}

// buildVCS says whether go build can stamp the commit: it cannot without git, in a tree
// without .git, or if git refuses the owner of the tree.
func (r Repo) buildVCS(ctx context.Context) string {
	git := exec.CommandContext(ctx, "git", "status", "--porcelain")
	git.Dir = r.Dir
	if _, err := os.Stat(filepath.Join(r.Dir, ".git")); err != nil || git.Run() != nil {
		return "false"
	}
	return "true"
}

// Revision identifies the state of the sources: the commit, and the changes to it. It is ""
// if git does not answer.
func (r Repo) Revision() string {
	sum := sha256.New()
	for _, args := range [][]string{{"rev-parse", "HEAD"}, {"diff", "HEAD"}} {
		git := exec.Command("git", args...)
		git.Dir = r.Dir
		out, err := git.Output()
		if err != nil {
			return ""
		}
		sum.Write(out)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
