package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // forms of packages
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"

	"github.com/cr-clawer/urifilter/systemd"
)

const maintainer = "urifilter <urifilter@users.noreply.github.com>"

// copyright names the license, whose text Debian has; the RPM says it in its head.
const copyright = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: %s\nSource: %s\n\n" +
	"Files: *\nCopyright: the authors of urifilter\nLicense: Apache-2.0\n See /usr/share/common-licenses/Apache-2.0 and the file LICENSE of the source.\n"

// writtenBy is what a unit says of who has written it.
var writtenBy = regexp.MustCompile("Written by `[a-z]+\\s+(# )?service install`, which overwrites it")

// pack makes the packages of a program for Debian and for RPM.
func (r *release) pack(ctx context.Context, p systemd.Program, goarch string, program []byte) error {
	root, err := os.MkdirTemp("", "urifilter-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	var contents files.Contents
	add := func(of, kind, to string, mode os.FileMode, text []byte) error { // of is deb or rpm, "" both
		from := filepath.Join(root, strings.ReplaceAll(to, "/", "_"))
		contents = append(contents, &files.Content{Source: from, Destination: to, Type: kind, Packager: of, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time}})
		return os.WriteFile(from, text, 0o600)
	}
	binary := "/usr/bin/" + p.Name
	if err := add("", "file", binary, 0o755, program); err != nil {
		return err
	}
	settings, err := os.ReadFile(filepath.Join("configs", p.Name+".yaml"))
	if err != nil {
		return err
	}
	if err := add("", "config|noreplace", p.Config(), 0o640, settings); err != nil {
		return err
	}
	units, err := systemd.Render(p, systemd.Params{Binary: binary, Listen: []string{listens(p)}})
	if err != nil {
		return err
	}
	for _, u := range units {
		text := writtenBy.ReplaceAll(u.Content, []byte("From its package"))
		if err := add("", "file", "/usr/lib/systemd/system/"+u.Name, 0o644, text); err != nil {
			return err
		}
	}
	user := fmt.Sprintf("u %s - \"%s daemon\" %s\n", p.User(), p.Name, p.DataDir())
	if err := add("", "file", "/usr/lib/sysusers.d/"+p.Name+".conf", 0o644, []byte(user)); err != nil {
		return err
	}
	if err := r.manuals(ctx, p, goarch, program, root, add); err != nil {
		return err
	}
	entry, err := zipped(fmt.Appendf(nil, "%s (%s) stable; urgency=medium\n\n  * See %s/blob/%s/CHANGELOG.md.\n\n -- %s  %s\n", p.Name, r.number(), p.Documentation, r.version, maintainer, r.time.Format(time.RFC1123Z)))
	if err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	docs := "/usr/share/doc/" + p.Name + "/"
	if err := errors.Join(
		add("", "file", docs+"copyright", 0o644, []byte(fmt.Sprintf(copyright, p.Name, p.Documentation))), add("", "file", docs+"changelog.gz", 0o644, entry),
		add("rpm", "license", "/usr/share/licenses/"+p.Name+"/LICENSE", 0o644, license), // of the RPM; Debian has the text
		// The program runs on any distribution, because it is linked to nothing.
		add("deb", "file", "/usr/share/lintian/overrides/"+p.Name, 0o644, []byte(p.Name+": statically-linked-binary [usr/bin/"+p.Name+"]\n")),
	); err != nil {
		return err
	}
	info := &nfpm.Info{
		Name: p.Name, Arch: goarch, Platform: "linux", Version: r.version, Section: "net", Priority: "optional", License: "Apache-2.0",
		Maintainer: maintainer, Homepage: p.Documentation, MTime: r.time,
		Description:  fmt.Sprintf("service for web crawlers that %s\nIts manual is at\n%s", p.Does, p.Documentation),
		Overridables: nfpm.Overridables{Contents: contents, Depends: []string{"systemd"}, RPM: nfpm.RPM{BuildHost: "localhost", Compression: "gzip:6"}},
	}
	for name, to := range map[string]*string{
		"preinst": &info.Scripts.PreInstall, "postinst": &info.Scripts.PostInstall, "prerm": &info.Scripts.PreRemove, "postrm": &info.Scripts.PostRemove,
	} {
		*to = filepath.Join(root, name)
		text := strings.NewReplacer("NAME", p.Name, "USER", p.User(), "CONFIG", p.Config(), "DATA", p.DataDir()).Replace(scripts[name])
		if err := os.WriteFile(*to, []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, form := range []string{"deb", "rpm"} {
		of := *info // to prepare it leaves out what is of the other form
		own := nfpm.WithDefaults(&of)
		packager, err := nfpm.Get(form)
		if err != nil {
			return err
		}
		if err := nfpm.PrepareForPackager(own, form); err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(r.dir, packager.ConventionalFileName(own)))
		if err != nil {
			return err
		}
		if err := packager.Package(own, out); err != nil {
			return err
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
	return nil
}

// manuals adds the pages and completions that the program itself writes, or, for another processor, one for this
// machine: their texts do not depend on the system.
func (r *release) manuals(ctx context.Context, p systemd.Program, goarch string, program []byte, root string, add func(of, kind, to string, mode os.FileMode, text []byte) error) error {
	own := filepath.Join(root, "own")
	if runtime.GOOS == "linux" && runtime.GOARCH == goarch {
		if err := os.WriteFile(own, program, 0o700); err != nil { //nolint:gosec // it is run
			return err
		}
	} else if err := r.repo.BuildFor(ctx, "./daemon/"+p.Name, runtime.GOOS, runtime.GOARCH, own); err != nil {
		return err
	}
	pages := filepath.Join(root, "man")
	ask := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, own, args...)
		cmd.Env = []string{"TZ=UTC", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())} // nothing of this machine
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%s %s: %w", p.Name, args[0], err)
		}
		return out, err
	}
	if _, err := ask("man", "--dir", pages); err != nil {
		return err
	}
	all, err := os.ReadDir(pages)
	if err != nil {
		return err
	}
	for _, page := range all {
		text, err := os.ReadFile(filepath.Join(pages, page.Name()))
		if err == nil {
			text, err = zipped(text)
		}
		if err == nil {
			err = add("", "file", "/usr/share/man/man1/"+page.Name()+".gz", 0o644, text)
		}
		if err != nil {
			return err
		}
	}
	for _, c := range completions {
		text, err := ask("completion", c.shell)
		if err != nil {
			return err
		}
		if err := add(c.of, "file", strings.ReplaceAll(c.path, "NAME", p.Name), 0o644, text); err != nil {
			return err
		}
	}
	return nil
}

// completions is where shells look for them; zsh has another folder in Debian than in Fedora and openSUSE.
var completions = []struct{ shell, path, of string }{
	{"bash", "/usr/share/bash-completion/completions/NAME", ""},
	{"zsh", "/usr/share/zsh/vendor-completions/_NAME", "deb"},
	{"zsh", "/usr/share/zsh/site-functions/_NAME", "rpm"},
	{"fish", "/usr/share/fish/vendor_completions.d/NAME.fish", ""},
}

// scripts run on the host. Debian calls them with words, RPM with how many versions there will be. A daemon that
// is upgraded is restarted; its port stays open, so that callers wait and none is refused.
var scripts = map[string]string{
	"preinst": `#!/bin/sh
set -e
if [ -e /etc/systemd/system/NAME.service ] && [ ! -L /opt/NAME/current ]; then
  echo "NAME: /etc/systemd/system/NAME.service is of 'NAME service install', and would hide the unit of this package." >&2
  echo "hint: 'NAME service uninstall' first; settings and data stay" >&2
  exit 1
fi
if [ -L /opt/NAME/current ]; then
  echo "NAME: this host is deployed by the toolkit (/opt/NAME/current), which has its own units and releases." >&2
  echo "hint: deploy there with 'go tool mage deploy', or remove /opt/NAME and /etc/systemd/system/NAME* first" >&2
  exit 1
fi
case "$1" in install|1) : > /run/NAME.fresh ;; esac # also when it comes back after it was removed
`,
	"postinst": `#!/bin/sh
set -e
case "$1" in configure|1|2) ;; *) exit 0 ;; esac
systemd-sysusers NAME.conf
[ ! -e CONFIG ] || chown root:USER CONFIG
[ ! -d "$(dirname CONFIG)" ] || { chmod 0750 "$(dirname CONFIG)"; chgrp USER "$(dirname CONFIG)"; }
fresh=no
[ ! -e /run/NAME.fresh ] || { fresh=yes; rm -f /run/NAME.fresh; }
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ "$fresh" = yes ]; then
  systemctl enable -q NAME.service NAME.socket
  systemctl start NAME.socket NAME.service || echo "NAME: it does not start: journalctl -u NAME says why" >&2
else
  systemctl try-restart NAME.service || echo "NAME: it does not start: journalctl -u NAME says why" >&2
fi
`,
	"prerm": `#!/bin/sh
set -e
case "$1" in remove|0) ;; *) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
for unit in NAME.service NAME.socket NAME-retry.timer NAME-writeback.timer; do
  systemctl disable -q --now "$unit" 2>/dev/null || systemctl stop "$unit" 2>/dev/null || true
done
`,
	"postrm": `#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ "$1" = purge ]; then
  rmdir "$(dirname CONFIG)" 2>/dev/null || true
  [ ! -d DATA ] || echo "NAME: its data stay in DATA; remove that folder if nobody needs them" >&2
fi
`,
}
