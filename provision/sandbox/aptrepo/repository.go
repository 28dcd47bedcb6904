// Package aptrepo makes a small signed repository of Debian packages with FerretDB on SQLite,
// a server that speaks MongoDB's protocol and that Debian has no package for. With it, the way
// from a repository's address and key to a running service can be rehearsed and tested. It is
// not for production: its key is thrown away.
package aptrepo

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Names in the repository.
const (
	Suite     = "stable"
	Component = "main"
	Package   = "ferretdb"
	Unit      = "ferretdb.service"
	KeyName   = "key.asc" // the public key, in the repository's folder
	// Broken is a suite whose package installs, but whose service dies at once.
	Broken = "broken"
	// Tampered is a suite whose index was changed after it was signed.
	Tampered = "tampered"
)

// format must be incremented when the repository is made in another way.
const format = 1

// Make returns the folder of the repository below cache, and makes it if missing, which takes
// about a minute. The caller must prevent concurrent calls.
func Make(ctx context.Context, cache string, out io.Writer) (string, error) {
	arch, err := output(ctx, "", nil, "dpkg", "--print-architecture")
	if err != nil {
		return "", err
	}
	arch = strings.TrimSpace(arch)
	dir := filepath.Join(cache, fmt.Sprintf("repository-%d-%s-%s", format, version, arch))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if _, err := exec.LookPath("gpg"); err != nil {
		return "", fmt.Errorf("package repository: no gpg to sign it\nhint: apt-get install gnupg")
	}
	fmt.Fprintf(out, "making the package repository with FerretDB %s, once; about a minute\n", version)
	binary, err := buildFerret(ctx, cache)
	if err != nil {
		return "", fmt.Errorf("package repository: build of FerretDB: %w", err)
	}
	half := dir + ".new"
	if err := os.RemoveAll(half); err != nil {
		return "", err
	}
	if err := fill(ctx, half, arch, binary); err != nil {
		return "", fmt.Errorf("package repository: %w", err)
	}
	return dir, os.Rename(half, dir)
}

func fill(ctx context.Context, dir, arch, binary string) error {
	sign, err := newSigner(ctx)
	if err != nil {
		return err
	}
	defer sign.close()
	for suite, d := range map[string]deb{Suite: ferret(arch, binary), Broken: brokenFerret(arch), Tampered: brokenFerret(arch)} {
		pool := filepath.Join(dir, "pool", suite)
		if err := os.MkdirAll(pool, 0o755); err != nil {
			return err
		}
		if err := d.build(ctx, filepath.Join(pool, fmt.Sprintf("%s_%s_%s.deb", d.name, d.version, d.arch))); err != nil {
			return err
		}
		if err := index(ctx, dir, suite, arch); err != nil {
			return err
		}
		if err := sign.release(ctx, filepath.Join(dir, "dists", suite)); err != nil {
			return err
		}
	}
	if err := tamper(filepath.Join(dir, "dists", Tampered, "InRelease")); err != nil {
		return err
	}
	return sign.export(ctx, filepath.Join(dir, KeyName))
}

// index writes the files Packages and Release of a suite.
func index(ctx context.Context, dir, suite, arch string) error {
	debs, err := filepath.Glob(filepath.Join(dir, "pool", suite, "*.deb"))
	if err != nil {
		return err
	}
	var packages strings.Builder
	for _, path := range debs {
		control, err := output(ctx, "", nil, "dpkg-deb", "--field", path)
		if err != nil {
			return err
		}
		size, sum, err := digest(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&packages, "%sFilename: pool/%s/%s\nSize: %d\nSHA256: %s\n\n", control, suite, filepath.Base(path), size, sum)
	}
	dists := filepath.Join(dir, "dists", suite)
	folder := filepath.Join(Component, "binary-"+arch)
	if err := os.MkdirAll(filepath.Join(dists, folder), 0o755); err != nil {
		return err
	}
	list := filepath.Join(folder, "Packages")
	if err := os.WriteFile(filepath.Join(dists, list), []byte(packages.String()), 0o644); err != nil {
		return err
	}
	if err := run(ctx, "", "gzip", "--keep", filepath.Join(dists, list)); err != nil {
		return err
	}
	release := fmt.Sprintf("Origin: urifilter sandbox\nLabel: urifilter sandbox\nSuite: %[1]s\nCodename: %[1]s\nDate: %[2]s\nArchitectures: %[3]s\nComponents: %[4]s\nSHA256:\n",
		suite, time.Now().UTC().Format(time.RFC1123), arch, Component)
	for _, name := range []string{list, list + ".gz"} {
		size, sum, err := digest(filepath.Join(dists, name))
		if err != nil {
			return err
		}
		release += fmt.Sprintf(" %s %d %s\n", sum, size, filepath.ToSlash(name))
	}
	return os.WriteFile(filepath.Join(dists, "Release"), []byte(release), 0o644)
}

func digest(path string) (size int, sum string, err error) {
	text, err := os.ReadFile(path)
	return len(text), fmt.Sprintf("%x", sha256.Sum256(text)), err
}

// tamper changes a signed text.
func tamper(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(text), "Label: urifilter", "Label: somebody", 1)), 0o644)
}

// signer is a key of gpg that is made for one repository and then forgotten.
type signer struct{ home string }

func newSigner(ctx context.Context) (signer, error) {
	// Not below the cache: the path of gpg's socket is limited to 107 bytes.
	home, err := os.MkdirTemp("", "gpg-")
	if err != nil {
		return signer{}, err
	}
	s := signer{home}
	if err := s.gpg(ctx, "--quick-generate-key", "urifilter sandbox", "ed25519", "sign", "never"); err != nil {
		s.close()
		return signer{}, err
	}
	return s, nil
}

func (s signer) gpg(ctx context.Context, args ...string) error {
	return run(ctx, "", "gpg", append([]string{"--homedir", s.home, "--batch", "--yes", "--quiet", "--passphrase", "", "--pinentry-mode", "loopback"}, args...)...)
}

// release signs the Release of a suite in both forms.
func (s signer) release(ctx context.Context, dists string) error {
	plain := filepath.Join(dists, "Release")
	if err := s.gpg(ctx, "--clearsign", "--output", filepath.Join(dists, "InRelease"), plain); err != nil {
		return err
	}
	return s.gpg(ctx, "--armor", "--detach-sign", "--output", plain+".gpg", plain)
}

func (s signer) export(ctx context.Context, path string) error {
	if err := s.gpg(ctx, "--armor", "--output", path, "--export"); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}

// close ends gpg's agent, which would stay otherwise, and deletes the key.
func (s signer) close() {
	_ = run(context.Background(), "", "gpgconf", "--homedir", s.home, "--kill", "all")
	_ = os.RemoveAll(s.home)
}
