package aptrepo

import (
	"context"
	"os"
	"path/filepath"
)

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
