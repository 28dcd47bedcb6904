// Command release makes what a version is published as, from a clean commit that has its tag: programs for Linux,
// macOS and Windows, packages for Debian and for RPM, images for containers, the wheel of the Python client, the notes, and
// the sums of all of it. The same commit gives the same bytes, whoever makes them with the same Go and setuptools. `go tool mage release` runs it.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"aead.dev/minisign"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/magefiles/chores"
	"github.com/cr-clawer/urifilter/systemd"
)

func main() {
	version := flag.String("version", "", "`tag` of the release, as v0.9.0; HEAD must have it")
	dir := flag.String("dir", "dist", "`folder` for the release: DIR/VERSION")
	some := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64", "comma-separated `list`")
	key := flag.String("key", "", "`file` of a minisign key without a password, which signs SHA256SUMS")
	flag.Parse()
	r := &release{repo: chores.Repo{Out: os.Stdout}, version: *version, platforms: strings.Split(*some, ","), key: *key}
	if err := r.make(context.Background(), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one release that is made.
type release struct {
	repo      chores.Repo
	version   string // as v0.9.0
	platforms []string
	key       string

	commit string
	time   time.Time // of the commit: all that is made has it
	dir    string
	python string // what made the wheel
}

// number is the version as 0.9.0.
func (r *release) number() string { return strings.TrimPrefix(r.version, "v") }

// published are the programs, in the order of their packages.
func published() []systemd.Program {
	return []systemd.Program{systemd.Urifilter(), systemd.Uridownloader()}
}

// listens is where a program listens by default.
func listens(p systemd.Program) string {
	if p.Name == systemd.Uridownloader().Name {
		return downloader.Default().Listen
	}
	return configs.Default().Listen
}

// semver is that of a tag, without metadata of the build. Pre-releases are those that Python's versions have, too.
var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(alpha|beta|rc)\.(0|[1-9]\d*))?$`)

// pep440 is the version as Python writes it: 0.9.0rc1.
func (r *release) pep440() string {
	return strings.NewReplacer("-alpha.", "a", "-beta.", "b", "-rc.", "rc").Replace(r.number())
}

func (r *release) make(ctx context.Context, dir string) error {
	notes, err := r.check(ctx)
	if err != nil {
		return err
	}
	if r.dir, err = filepath.Abs(filepath.Join(dir, r.version)); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.dir), os.MkdirAll(r.dir, 0o755)); err != nil {
		return err
	}
	if err := r.write("NOTES.md", notes); err != nil {
		return err
	}
	for i, platform := range r.platforms {
		fmt.Printf("%d of %d: %s\n", i+1, len(r.platforms), platform)
		goos, goarch, _ := strings.Cut(platform, "/")
		if err := r.makeFor(ctx, goos, goarch); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
	}
	fmt.Printf("the wheel of the Python client\n")
	epoch := fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())
	if r.python, err = r.repo.PythonDist(ctx, []string{epoch}, r.dir, r.pep440()); err != nil {
		return err
	}
	if err := r.describe(); err != nil {
		return err
	}
	return r.sum()
}

// check returns the notes of a version that can be released.
func (r *release) check(ctx context.Context) (notes []byte, err error) {
	if !semver.MatchString(r.version) {
		return nil, fmt.Errorf("version %q: want one such as v0.9.0 or v0.9.0-rc.1 (semver.org; alpha, beta or rc)\nhint: go tool mage release -version=v0.9.0", r.version)
	}
	if changed, err := git(ctx, "status", "--porcelain"); err != nil || changed != "" {
		return nil, errors.Join(fmt.Errorf("the working tree has changes, or files that git does not know: a build counts them\nhint: commit them, or `git stash -u`; a key belongs elsewhere"), err)
	}
	if r.commit, err = git(ctx, "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	if tagged, err := git(ctx, "rev-parse", "-q", "--verify", "refs/tags/"+r.version+"^{commit}"); err != nil || tagged != r.commit {
		return nil, fmt.Errorf("HEAD is not tagged %s\nhint: git tag %[1]s, or check out that tag", r.version)
	}
	seconds, err := git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, err
	}
	r.time = time.Unix(unix, 0).UTC()
	changes, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	return notesOf(changes, r.version)
}

// notesOf cuts the notes of a version out of the list of changes.
func notesOf(changes []byte, version string) ([]byte, error) {
	head := regexp.MustCompile(`(?m)^## \[?` + regexp.QuoteMeta(strings.TrimPrefix(version, "v")) + `\]?( .*)?\n`).FindIndex(changes)
	if head == nil {
		return nil, fmt.Errorf("CHANGELOG.md has no part \"## %s\"\nhint: give what is under \"## Unreleased\" that heading, with the date, and commit it", strings.TrimPrefix(version, "v"))
	}
	notes, _, _ := bytes.Cut(changes[head[1]:], []byte("\n## "))
	return append(bytes.TrimSpace(notes), '\n'), nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// write writes a file of the release.
func (r *release) write(name string, text []byte) error {
	return os.WriteFile(filepath.Join(r.dir, name), text, 0o644) //nolint:gosec // it is published
}

// makeFor makes the programs for a platform, and for Linux what holds them.
func (r *release) makeFor(ctx context.Context, goos, goarch string) error {
	for _, p := range published() {
		name := fmt.Sprintf("%s-%s-%s-%s", p.Name, r.version, goos, goarch)
		if goos == "windows" {
			name += ".exe"
		}
		out := filepath.Join(r.dir, name)
		if err := r.repo.BuildFor(ctx, "./daemon/"+p.Name, goos, goarch, out); err != nil {
			return err
		}
		if goos != "linux" {
			continue
		}
		program, err := os.ReadFile(out)
		if err != nil {
			return err
		}
		if err := r.pack(ctx, p, goarch, program); err != nil {
			return err
		}
		if err := r.image(p, goarch, program); err != nil {
			return err
		}
	}
	return nil
}

// summed is a file of the release with its SHA-256.
type summed struct{ name, sum string }

// sums returns those of all files that there are.
func (r *release) sums() (all []summed, err error) {
	files, err := os.ReadDir(r.dir)
	for _, f := range files {
		text, wrong := os.ReadFile(filepath.Join(r.dir, f.Name()))
		err = errors.Join(err, wrong)
		all = append(all, summed{f.Name(), fmt.Sprintf("%x", sha256.Sum256(text))})
	}
	return all, err
}

// sum writes the sums of all files, and signs them if there is a key.
func (r *release) sum() error {
	files, err := r.sums()
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&sums, "%s  %s\n", f.sum, f.name)
	}
	if err := r.write("SHA256SUMS", sums.Bytes()); err != nil || r.key == "" {
		return err
	}
	text, err := os.ReadFile(r.key)
	if err != nil {
		return err
	}
	var key minisign.PrivateKey
	if err := key.UnmarshalText(text); err != nil {
		return fmt.Errorf("key %s: %w", r.key, err)
	}
	comment := fmt.Sprintf("timestamp:%d\tfile:SHA256SUMS\tversion:%s", r.time.Unix(), r.version)
	return r.write("SHA256SUMS.minisig", minisign.SignWithComments(key, sums.Bytes(), comment, "urifilter "+r.version))
}
