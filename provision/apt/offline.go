package apt

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// staging is the folder of a bundle's files on a host during installation.
const staging = "/var/cache/urifilter-toolkit"

// index makes a repository of the files in the folder, and limits apt to it and the installed
// packages: apt takes the files it needs, and uses no network. The host's own lists and caches are
// not touched.
const index = `cd %s && mkdir -p lists/partial archives/partial && for f in *.deb; do
	dpkg-deb --field "$f" && printf 'Filename: ./%%s\nSize: %%s\nSHA256: %%s\n\n' "$f" "$(stat -c %%s "$f")" "$(sha256sum <"$f" | cut -d' ' -f1)" || exit
done >Packages && printf 'deb [trusted=yes] file:%%s ./\n' "$PWD" >sources.list`

// fromBundle installs packages and their dependencies from the bundle.
func (s *System) fromBundle(ctx context.Context, h host.Host, packages []string) error {
	facts, err := host.FactsOf(ctx, h)
	if err != nil {
		return err
	}
	debs, err := s.options.Bundle.of(Platform(facts))
	if err != nil {
		return err
	}
	known, err := s.options.Bundle.index(Platform(facts))
	if err == nil && known != "" {
		debs, err = s.lacking(ctx, h, known, debs, packages)
	}
	if err == nil {
		err = upload(ctx, h, debs)
	}
	if err == nil {
		_, err = h.Run(ctx, host.Command{Script: fmt.Sprintf(index, staging), Root: true})
	}
	if err == nil {
		_, err = s.aptGet(ctx, h, onlyBundle("update")...)
	}
	if err == nil {
		step.Say(ctx, "apt: installing %s", strings.Join(packages, ", "))
		_, err = s.aptGet(ctx, h, onlyBundle(append([]string{"install", "--no-install-recommends", "--no-remove", "--"}, packages...)...)...)
	}
	if err != nil {
		return fmt.Errorf("bundle %s: %w", s.options.Bundle.name, err)
	}
	return clearStaging(ctx, h)
}

// onlyBundle limits apt-get to the files in the folder. The host's own cache is ignored as well,
// because a package in it would not be sent.
func onlyBundle(args ...string) []string {
	return append([]string{
		"-oDir::Etc::sourcelist=" + staging + "/sources.list", "-oDir::Etc::sourceparts=-", "-oDir::State::lists=" + staging + "/lists",
		"-oDir::Cache::archives=" + staging + "/archives",
		"-oDir::Cache::pkgcache=", "-oDir::Cache::srcpkgcache=", "-oAPT::Sandbox::User=root",
	}, args...)
}

// needed matches a line of apt-get --print-uris with a file of the folder.
var needed = regexp.MustCompile(`(?m)^'file:` + staging + `/(?:\./)?([^'/]+)' `)

// lacking returns the packages that the host would take.
func (s *System) lacking(ctx context.Context, h host.Host, known string, debs []deb, packages []string) ([]deb, error) {
	if err := host.AsRoot(ctx, h, "install -d -m 755 "+staging+"/lists/partial "+staging+"/archives/partial"); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{Index: known, "sources.list": "deb [trusted=yes] file:" + staging + " ./\n"} {
		if err := host.WriteFile(ctx, h, host.File{Path: staging + "/" + name, Content: text}); err != nil {
			return nil, err
		}
	}
	if _, err := s.aptGet(ctx, h, onlyBundle("update")...); err != nil {
		return nil, err
	}
	text, err := s.aptGet(ctx, h, onlyBundle(append([]string{"install", "--no-install-recommends", "--no-remove", "--print-uris", "--"}, packages...)...)...)
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: a bundle must hold the packages and all that they need: go tool mage install:bundle", err)
	}
	wanted := map[string]bool{}
	for _, m := range needed.FindAllStringSubmatch(text, -1) {
		name, err := url.PathUnescape(m[1])
		if err != nil {
			return nil, err
		}
		wanted[name] = true
	}
	return slices.DeleteFunc(debs, func(d deb) bool { return !wanted[path.Base(d.path)] }), nil
}

func clearStaging(ctx context.Context, h host.Host) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return host.AsRoot(ctx, h, "rm -rf "+staging)
}

// upload sends the files that the host lacks: after a failure the next run continues where this one
// ended.
func upload(ctx context.Context, h host.Host, debs []deb) error {
	have := fmt.Sprintf(`install -d -m 755 %s && cd %[1]s && rm -rf lists Packages sources.list && for f in *.deb; do [ -f "$f" ] && sha256sum "$f"; done; :`, staging)
	out, err := h.Run(ctx, host.Command{Script: have, Root: true})
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	there := map[string]string{}
	for line := range strings.Lines(out.Stdout) {
		if m := sumLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			there[m[2]] = m[1]
		}
	}
	sent := map[string]bool{}
	for _, d := range debs {
		base := path.Base(d.path)
		sent[base] = there[base] == d.sum
		delete(there, base)
	}
	if len(there) > 0 { // left by another bundle
		var old []string
		for name := range there {
			old = append(old, staging+"/"+name)
		}
		if err := host.AsRoot(ctx, h, "rm -f -- "+host.Words(old...)); err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	step.Say(ctx, "apt: sending files of the bundle, %d of them", len(debs))
	for _, d := range debs {
		base := path.Base(d.path)
		if sent[base] {
			continue
		}
		u := host.Upload{Source: d.source, Size: d.size, SHA256: d.sum, Path: staging + "/" + base, Mode: 0o644}
		if err := h.Upload(ctx, u); err != nil {
			return fmt.Errorf("bundle: %w", err)
		}
	}
	return nil
}
