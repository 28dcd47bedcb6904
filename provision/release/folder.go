package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// Listing lists the releases of a host.
type Listing struct {
	// Releases are the complete ones, newest first.
	Releases []Manifest
	// Current is the id that the link names, "" without one. It may name a release that
	// is not in Releases, if somebody has removed or damaged it.
	Current string
	// Faults are folders that are not releases, with the reason.
	Faults []error
	faulty []string // the names of these folders
}

// has reports whether a folder with that id exists, complete or not.
func (l Listing) has(id string) bool {
	_, whole := l.Find(id)
	return whole || slices.Contains(l.faulty, id)
}

// Find returns the release with that id.
func (l Listing) Find(id string) (Manifest, bool) {
	i := slices.IndexFunc(l.Releases, func(m Manifest) bool { return m.ID == id })
	if i < 0 {
		return Manifest{}, false
	}
	return l.Releases[i], true
}

// Previous returns the target of a rollback: the release that was healthy last, apart
// from the current one.
func (l Listing) Previous() (Manifest, bool) {
	var best Manifest
	for _, m := range l.Releases {
		if m.ID != l.Current && m.Healthy != nil && (best.Healthy == nil || m.Healthy.After(*best.Healthy)) {
			best = m
		}
	}
	return best, best.ID != ""
}

// newest returns when the newest release was put there; zero: there is none.
func (l Listing) newest() time.Time {
	if len(l.Releases) == 0 {
		return time.Time{}
	}
	return l.Releases[0].Created
}

// lastHealthy returns when another release than id was healthy last; zero: none ever was.
func (l Listing) lastHealthy(id string) (last time.Time) {
	for _, m := range l.Releases {
		if m.ID != id && m.Healthy != nil && m.Healthy.After(last) {
			last = *m.Healthy
		}
	}
	return last
}

// List asks a host for its releases. The list may be empty.
func (f Folder) List(ctx context.Context, h host.Host) (Listing, error) {
	script := fmt.Sprintf(`readlink %s || echo
cd %s 2>/dev/null || exit 0
for d in *; do
	[ -f "$d/%s" ] && [ -f "$d/manifest.json" ] || continue
	printf '%%s ' "$d"
	tr -d '\n' <"$d/manifest.json"
	echo
done`, host.Quote(f.current()), host.Quote(f.releases()), f.name)
	out, err := h.Run(ctx, host.Command{Script: script, Look: true})
	if err != nil {
		return Listing{}, fmt.Errorf("list releases: %w", err)
	}
	return parseListing(out.Stdout), nil
}

func parseListing(text string) Listing {
	var l Listing
	link, rest, _ := strings.Cut(text, "\n")
	l.Current = link[strings.LastIndexByte(link, '/')+1:]
	for line := range strings.Lines(rest) {
		id, manifest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !validID(id) {
			continue // not ours
		}
		m, err := parseManifest(id, manifest)
		if err != nil {
			l.Faults = append(l.Faults, err)
			l.faulty = append(l.faulty, id)
			continue
		}
		l.Releases = append(l.Releases, m)
	}
	slices.SortFunc(l.Releases, func(a, b Manifest) int { return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.ID, a.ID)) })
	return l
}

// digest returns the SHA-256 of a release's program on the host's disk.
func (f Folder) digest(ctx context.Context, h host.Host, id string) (string, error) {
	out, err := h.Run(ctx, host.Command{Script: "sha256sum <" + host.Quote(f.ProgramOf(id)), Look: true})
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(out.Stdout, " ")
	return sum, nil
}

// Point swaps the link of the current release to a release, or removes it where id is "".
func (f Folder) Point(ctx context.Context, h host.Host, id string) error {
	script := fmt.Sprintf("cd %s && rm -f current", host.Quote(f.root))
	if id != "" {
		// rename(2) replaces the old link atomically; sync makes that durable.
		script = fmt.Sprintf("cd %s && test -x releases/%s/%s && rm -f current.tmp && ln -s releases/%[2]s current.tmp && mv -Tf current.tmp current && sync .",
			host.Quote(f.root), id, f.name)
	}
	return host.AsRoot(ctx, h, script)
}

// MarkHealthy notes in a release's manifest that it has passed the health check.
func (f Folder) MarkHealthy(ctx context.Context, h host.Host, id string, at time.Time) error {
	at = at.UTC().Truncate(time.Second)
	return f.mark(ctx, h, id, &at)
}

// mark notes when a release was healthy; nil: not healthy.
func (f Folder) mark(ctx context.Context, h host.Host, id string, healthy *time.Time) error {
	list, err := f.List(ctx, h)
	if err != nil {
		return err
	}
	m, ok := list.Find(id)
	if !ok {
		return fmt.Errorf("release %s: it is not on the host", id)
	}
	m.Healthy = healthy
	return f.writeManifest(ctx, h, f.dir(id), m)
}

func (f Folder) writeManifest(ctx context.Context, h host.Host, dir string, m Manifest) error {
	text, err := m.text()
	if err != nil {
		return err
	}
	// The bytes are counted, because a cut connection ends the input just like its real end.
	script := fmt.Sprintf(`cd %s && umask 022 && cat >manifest.tmp || exit
got=$(($(wc -c <manifest.tmp)))
[ "$got" = %d ] || { rm -f manifest.tmp; echo "got $got of %[2]d bytes" >&2; exit 1; }
sync manifest.tmp && mv -Tf manifest.tmp manifest.json && sync .`, host.Quote(dir), len(text))
	if _, err := h.Run(ctx, host.Command{Root: true, Script: script, Stdin: strings.NewReader(text)}); err != nil {
		return fmt.Errorf("release %s: manifest: %w", m.ID, err)
	}
	return nil
}

// ErrNoPrevious means that there is nothing to roll back to.
var ErrNoPrevious = errors.New("there is no other healthy release")

// Target returns the release for a rollback to version: a prefix of its id, or six digits
// or more of its commit or of its program's SHA-256; "" is Previous.
func (l Listing) Target(version string) (Manifest, error) {
	if version == "" {
		if m, ok := l.Previous(); ok {
			return m, nil
		}
		return Manifest{}, ErrNoPrevious
	}
	var matches []Manifest
	for _, m := range l.Releases {
		if strings.HasPrefix(m.ID, version) || len(version) >= 6 && (strings.HasPrefix(m.SHA256, version) || strings.HasPrefix(m.content(), version) || strings.HasPrefix(m.Commit, version)) {
			matches = append(matches, m)
		}
	}
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return Manifest{}, fmt.Errorf("release %s: not on the host\nhint: it has %s; the hash of the commit works too", version, l.ids())
	}
	return Manifest{}, fmt.Errorf("release %s: %d releases begin with it\nhint: it has %s", version, len(matches), l.ids())
}

func (l Listing) ids() string {
	if len(l.Releases) == 0 {
		return "none"
	}
	ids := make([]string, len(l.Releases))
	for i, m := range l.Releases {
		ids[i] = m.ID
	}
	return strings.Join(ids, ", ")
}
