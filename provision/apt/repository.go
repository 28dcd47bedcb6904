package apt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Repository is a repository to add to a host: a vendor's, or a mirror of it.
type Repository struct {
	// Name is a word; the files are called urifilter-NAME.
	Name string
	// URL is the address without dists: "https://repo.mongodb.org/apt/debian".
	URL string
	// Suite is for example "bookworm/mongodb-org/8.0"; one that ends in / stands for a flat
	// repository, which has no components.
	Suite string
	// Component is for example "main"; several are separated by blanks.
	Component string
	// Key is the public key, armored or binary, with which the repository must be signed.
	Key []byte
}

const (
	keyrings   = "/etc/apt/keyrings"
	sourceList = "/etc/apt/sources.list.d"
)

func (r Repository) keyPath() string {
	if armored(r.Key) {
		return keyrings + "/urifilter-" + r.Name + ".asc"
	}
	return keyrings + "/urifilter-" + r.Name + ".gpg"
}

func (r Repository) sourcePath() string { return sourceList + "/urifilter-" + r.Name + ".sources" }

var (
	word     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	sources  = regexp.MustCompile(`^[A-Za-z0-9._~/+-]+$`)
	oneBlank = regexp.MustCompile(`^[A-Za-z0-9._-]+( [A-Za-z0-9._-]+)*$`)
)

// Validate returns everything that is wrong, as one error.
func (r Repository) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("repository "+format, args...))
	}
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || u.Host == "" && u.Scheme != "file" || strings.ContainsAny(r.URL, " \t\n"):
		fault("url: want an address such as https://mirror.example/debian")
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "file":
		fault("url: scheme %q: want https, http or file", u.Scheme)
	case u.User != nil:
		fault("url: it holds a user or password: put those into /etc/apt/auth.conf.d on the host")
	}
	if !word.MatchString(r.Name) {
		fault("name %q: want lower-case letters, digits and -", r.Name)
	}
	if !sources.MatchString(r.Suite) {
		fault("suite %q: want one such as bookworm/mongodb-org/8.0", r.Suite)
	}
	switch flat := strings.HasSuffix(r.Suite, "/"); {
	case flat && r.Component != "":
		fault("component %q: a suite that ends in / has none", r.Component)
	case !flat && !oneBlank.MatchString(r.Component):
		fault("component %q: want one such as main", r.Component)
	}
	if !armored(r.Key) && !binaryKey(r.Key) {
		fault("key: want a public OpenPGP key, armored or binary")
	}
	return errors.Join(faults...)
}

func armored(key []byte) bool {
	return bytes.Contains(key, []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----"))
}

// binaryKey reports whether key begins with a public key packet (RFC 9580, 4.2).
func binaryKey(key []byte) bool {
	if len(key) < 3 {
		return false
	}
	tag := key[0] & 0x3f
	if key[0]&0x40 == 0 {
		tag >>= 2
	}
	return key[0]&0x80 != 0 && tag == 6
}

// source returns the entry, in deb822 format.
func (r Repository) source() string { return r.sourceWith(r.keyPath()) }

func (r Repository) sourceWith(keyPath string) string {
	text := "# Written by the urifilter toolkit, which rewrites it when it differs.\n" +
		"Types: deb\nURIs: " + r.URL + "\nSuites: " + r.Suite + "\n"
	if r.Component != "" {
		text += "Components: " + r.Component + "\n"
	}
	return text + "Signed-By: " + keyPath + "\n"
}

// Repository is the step that adds a repository. If somebody else has already added it, their entry
// remains: apt refuses two entries with different keys.
func (s *System) Repository(r Repository) step.Wish {
	return step.NewWish(r.Name+": repository", func(ctx context.Context, h host.Host) (*step.Change, error) {
		if err := r.Validate(); err != nil {
			return nil, err
		}
		foreign, err := r.foreign(ctx, h)
		if err != nil || foreign != "" {
			if foreign != "" {
				step.Say(ctx, "apt: %s has the repository already", foreign)
			}
			return nil, err
		}
		source := host.File{Path: r.sourcePath(), Content: r.source()}
		key := host.File{Path: r.keyPath(), Content: string(r.Key)}
		oldSource, _, err := host.ReadFile(ctx, h, source.Path)
		if err != nil {
			return nil, err
		}
		oldKey, _, err := host.ReadFile(ctx, h, key.Path)
		if err != nil {
			return nil, err
		}
		if source.Same(oldSource) && key.Same(oldKey) {
			return nil, nil
		}
		c := &step.Change{Summary: "add the repository " + r.URL, Diff: diff.Unified(source.Path, oldSource.Content, source.Content)}
		if c.Diff == "" {
			c.Summary = "write the key " + key.Path
		}
		c.Apply = func(ctx context.Context) error {
			err := s.add(ctx, h, r, source, key)
			if err == nil {
				return nil
			}
			// A broken entry makes every apt-get on the host fail. One that was there before is put back.
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			return errors.Join(err, host.Restore(undo, h, source.Path, oldSource), host.Restore(undo, h, key.Path, oldKey))
		}
		return c, nil
	})
}

// trial is the folder of an entry that has not been tried yet. Apt does not read it by itself.
const trial = staging + "/repository"

// add tries an entry elsewhere before it writes it: nobody may be left to take a broken one back.
func (s *System) add(ctx context.Context, h host.Host, r Repository, source, key host.File) (err error) {
	if err := host.AsRoot(ctx, h, "install -d -m 755 "+keyrings+" "+trial); err != nil {
		return err
	}
	defer func() {
		if left := host.AsRoot(context.WithoutCancel(ctx), h, "rm -rf "+trial); err == nil {
			err = left
		}
	}()
	tried := host.File{Path: trial + "/" + path.Base(key.Path), Content: key.Content}
	list := host.File{Path: trial + "/" + path.Base(source.Path), Content: r.sourceWith(tried.Path)}
	if err := errors.Join(host.WriteFile(ctx, h, tried), host.WriteFile(ctx, h, list)); err != nil {
		return err
	}
	step.Say(ctx, "apt: asking %s", r.URL)
	_, err = s.aptGet(ctx, h, "-oDir::Etc::sourcelist="+list.Path, "-oDir::Etc::sourceparts=-", "-oAPT::Get::List-Cleanup=0", "-oAPT::Update::Error-Mode=any", "update")
	if err != nil {
		return fmt.Errorf("repository %s: %w", r.URL, err)
	}
	for _, f := range []host.File{key, source} {
		if err := host.WriteFile(ctx, h, f); err != nil {
			return err
		}
	}
	return nil
}

// foreign returns the file of somebody else that has the same address and suite.
func (r Repository) foreign(ctx context.Context, h host.Host) (string, error) {
	script := fmt.Sprintf(`cd /etc/apt 2>/dev/null || exit 0
for f in sources.list sources.list.d/*.list sources.list.d/*.sources; do
	[ -f "$f" ] && [ "/etc/apt/$f" != %s ] && ! grep -qiE '^Enabled: *no' "$f" || continue
	grep -v '^[[:space:]]*#' "$f" | grep -qF -- %s && grep -v '^[[:space:]]*#' "$f" | grep -qF -- %s && echo "/etc/apt/$f"
done
:`, host.Quote(r.sourcePath()), host.Quote(strings.TrimRight(r.URL, "/")), host.Quote(r.Suite))
	out, err := h.Run(ctx, host.Command{Script: script, Root: true, Look: true})
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	first, _, _ := strings.Cut(out.Stdout, "\n")
	return first, nil
}

// largestKey is the size limit of a key.
const largestKey = 1 << 20

// FetchKey reads the key of a repository, from a file of this machine or, if that is "", from a
// URL.
func FetchKey(ctx context.Context, file, address string) ([]byte, error) {
	if file != "" {
		return os.ReadFile(file)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" {
		return nil, fmt.Errorf("repository key %s: want an https address; a key from elsewhere is to be compared by eye and given as a file", address)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("repository key: %w\nhint: without access to it, download the key elsewhere and give it as key_file", err)
	}
	defer resp.Body.Close()
	key, err := io.ReadAll(io.LimitReader(resp.Body, largestKey))
	switch {
	case err != nil:
		return nil, fmt.Errorf("repository key %s: %w", address, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("repository key %s: %s", path.Base(u.Path), resp.Status)
	case !armored(key) && !binaryKey(key):
		return nil, fmt.Errorf("repository key %s: it holds no OpenPGP key", address)
	}
	return key, nil
}
