package e2e_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/cr-clawer/urifilter/provision/e2e"
	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/fleet"
)

// released makes two releases of this tree, in a clone that has their tags.
func released(t *testing.T) (old, next string) {
	t.Helper()
	root, err := programs.Root(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	run := func(dir, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, args, err, out)
		}
	}
	run(root, "git", "clone", "-q", "--depth=1", "file://"+root, clone)
	changes := filepath.Join(clone, "CHANGELOG.md")
	text, err := os.ReadFile(changes)
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, version := range []string{"0.9.0", "0.9.1"} {
		text = bytes.Replace(text, []byte("## Unreleased\n"), []byte("## Unreleased\n\n## "+version+"\n\n- Something.\n"), 1)
		if err := os.WriteFile(changes, text, 0o600); err != nil {
			t.Fatal(err)
		}
		run(clone, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-qam", "release")
		run(clone, "git", "tag", "v"+version)
		run(clone, "go", "run", "./magefiles/release", "-version=v"+version, "-platforms=linux/"+runtime.GOARCH)
		made = append(made, filepath.Join(clone, "dist", "v"+version))
	}
	again := t.TempDir()
	// Another day, another machine.
	run(clone, "unshare", "-u", "sh", "-c", "hostname elsewhere && SOURCE_DATE_EPOCH=1 TZ=Asia/Tokyo go run ./magefiles/release -version=v0.9.1 -platforms=linux/"+runtime.GOARCH+" -dir="+again)
	run(clone, "diff", "-r", made[1], filepath.Join(again, "v0.9.1")) // the same bytes
	run(made[1], "sha256sum", "-c", "SHA256SUMS")
	run(made[1], "grep", "-q", "crawlerfilter-0.9.1-py3-none-any.whl", "SHA256SUMS")
	run(made[1], "grep", "-q", "pkg:pypi/crawlerfilter@0.9.1", "sbom.cdx.json")
	return made[0], made[1]
}

// put brings a file to a host.
func put(t *testing.T, l *e2e.Laptop, host, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	l.Sh(t, host, ": > "+to)
	for part := range slices.Chunk(text, 90_000) { // a command may be 128 KiB long
		l.Sh(t, host, "echo "+base64.StdEncoding.EncodeToString(part)+" | base64 -d >> "+to)
	}
}

// caller asks about u1, u2, ... one after another, and writes down each that is not answered as new.
const caller = `use IO::Socket::INET; $n = 0; while (!-e "/tmp/stop") { $n++; my $body = qq({"filter":"uri","uri_list":["u$n"]});
my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:8000", Timeout => 60); my $got = "";
if ($s) { print $s "POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " . length($body) . "\r\n\r\n$body"; local $/; $got = <$s>; }
open F, ">", "/tmp/count"; print F $n; close F;
if ($got !~ /"uri_list":\["u$n"\]/) { open F, ">>", "/tmp/failed"; print F "u$n: $got\n"; close F; } }`

// tryImage: the image of a release, unpacked, serves with nothing but itself, as its configuration says.
func tryImage(t *testing.T, l *e2e.Laptop, dir string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "urifilter-*-image-*.tar"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	image, err := tarball.ImageFromPath(found[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	inside := "env -i " + strings.Join(c.Env, " ") + " /usr/sbin/chroot --userspec=" + c.User + " /root/image/root " + strings.Join(c.Entrypoint, " ")
	put(t, l, "one", found[0], "/root/image.tar")
	l.Sh(t, "one", "mkdir -p /root/image/root && cd /root/image && tar xf /root/image.tar && for layer in *.tar.gz; do tar xzf $layer -C root; done && "+
		"root/urifilter token new --name c --scopes filter > root/etc/urifilter/tokens.yaml && systemd-run -q --unit=image "+inside+" "+strings.Join(c.Cmd, " "))
	l.Sh(t, "one", "for i in $(seq 600); do "+strings.TrimSuffix(inside, strings.Join(c.Entrypoint, " "))+strings.Join(c.Healthcheck.Test[1:], " ")+" && exit 0; sleep 0.1; done; systemctl status image; exit 1")
	l.Sh(t, "one", "systemctl stop image && test -d /root/image/root/var/lib/urifilter/filters")
}

// tryPackages: a package answers in under a minute, is upgraded and rolled back under calls without losing one, and
// purged; it refuses a host that the toolkit has deployed.
func tryPackages(t *testing.T) {
	old, next := released(t)
	for _, program := range []string{"urifilter", "uridownloader"} {
		tryRPM(t, next, program)
	}
	l := e2e.New(t, e2e.Options{Hosts: []e2e.Host{{Name: "one", Release: "bookworm"}}})
	deb := func(dir, program string) string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(dir, program+"_*.deb"))
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		return found[0]
	}
	put(t, l, "one", deb(old, "urifilter"), "/root/old.deb")
	put(t, l, "one", deb(next, "urifilter"), "/root/next.deb")
	put(t, l, "one", deb(next, "uridownloader"), "/root/downloader.deb")

	began := time.Now()
	l.Sh(t, "one", "dpkg -i /root/old.deb")
	if got := l.Sh(t, "one", `printf 'first\n' | urifilter filter --filter uri`); got != "first" {
		t.Errorf("the first answer: %q", got)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the first answer came %s after dpkg began, want a minute at most", took)
	}

	l.Sh(t, "one", "cat > /root/caller <<'end'\n"+caller+"\nend\nsystemd-run -q --unit=caller perl /root/caller")
	more := func() {
		l.Sh(t, "one", `n=$(cat /tmp/count || echo 0); for i in $(seq 600); do [ "$(cat /tmp/count || echo 0)" -lt $((n+50)) ] || exit 0; sleep 0.1; done; systemctl status caller; exit 1`)
	}
	more()
	version := func() string {
		return l.Sh(t, "one", "/proc/$(systemctl show -p MainPID --value urifilter)/exe --version")
	}
	before := version()
	l.Sh(t, "one", "dpkg -i /root/next.deb")
	more()
	if after := version(); before == after || !strings.Contains(after, "v0.9.1") {
		t.Errorf("%q runs after the upgrade of %q", after, before)
	}
	l.Sh(t, "one", "dpkg -i /root/old.deb") // and back
	more()
	if after := version(); after != before {
		t.Errorf("%q runs after the way back, want %q", after, before)
	}
	l.Sh(t, "one", "touch /tmp/stop")
	if failed := l.Sh(t, "one", "cat /tmp/failed 2>/dev/null || :"); failed != "" {
		t.Errorf("calls without their answer:\n%s", failed)
	}
	if got := l.Sh(t, "one", `printf 'first\nu1\nu20\n' | urifilter filter --filter uri`); got != "" {
		t.Errorf("forgotten: %q", got)
	}

	l.Sh(t, "one", "dpkg -i /root/downloader.deb && systemctl is-active uridownloader && uridownloader job list")
	l.Sh(t, "one", "echo '# mine' >> /etc/urifilter/urifilter.yaml && dpkg --force-confold -i /root/next.deb && grep -q '# mine' /etc/urifilter/urifilter.yaml")
	l.Sh(t, "one", "dpkg -r urifilter && ! systemctl is-active -q urifilter.socket && dpkg -i /root/next.deb && systemctl is-active urifilter.socket urifilter && rm /etc/urifilter/urifilter.yaml && dpkg -i /root/old.deb")
	l.Sh(t, "one", "dpkg --purge urifilter uridownloader && test -d /var/lib/urifilter && ! test -e /etc/urifilter && ! systemctl is-active -q urifilter.socket")

	tryImage(t, l, next)

	// A host has either the package or the toolkit's releases, and each says so; what it remembers stays.
	l.Sh(t, "one", "dpkg -i /root/next.deb && printf 'kept\\n' | urifilter filter --filter uri")
	for _, target := range []string{"deploy", "install:service"} {
		want(t, l.Mage(t, target), fleet.CodeFailed, "one has the package urifilter", "hint: apt-get remove urifilter")
	}
	l.Sh(t, "one", "systemctl is-active urifilter && test ! -e /opt/urifilter/current && dpkg -r urifilter")
	l.Must(t, "deploy")
	if got := l.Sh(t, "one", `printf 'kept\nlater\n' | /opt/urifilter/current/urifilter filter --filter uri`); got != "later" {
		t.Errorf("new to the toolkit's daemon: %q", got)
	}
	if out := l.Sh(t, "one", "dpkg -i /root/next.deb 2>&1 && echo it was taken || :"); !strings.Contains(out, "this host is deployed by the toolkit") || strings.Contains(out, "it was taken") {
		t.Errorf("on a host of the toolkit: %s", out)
	}
	l.Sh(t, "one", "systemctl is-active urifilter")
}

// tryRPM: the package for RPM has the files and the scripts of that for Debian.
func tryRPM(t *testing.T, dir, program string) {
	t.Helper()
	script := `set -e
deb=$(ls $1/$2_*.deb) rpm=$(ls $1/$2-*.rpm)
mkdir deb rpm
dpkg-deb -x $deb deb
(cd rpm && rpm2cpio $rpm | cpio -idm --quiet --no-absolute-filenames)
# what each has for itself
rm deb/usr/share/lintian/overrides/$2 rpm/usr/share/licenses/$2/LICENSE
mkdir -p deb/usr/share/zsh/site-functions && mv deb/usr/share/zsh/vendor-completions/_$2 deb/usr/share/zsh/site-functions/
find deb rpm -type d -empty -delete
diff -r deb rpm
for d in deb rpm; do (cd $d && find . -type f -printf '%m %p\n' | sort) > $d.modes; done
diff deb.modes rpm.modes
dpkg-deb -I $deb conffiles | sort > deb.conf; rpm -qpc $rpm | sort > rpm.conf
diff deb.conf rpm.conf
for s in preinst:PREIN postinst:POSTIN prerm:PREUN postrm:POSTUN; do
  dpkg-deb -I $deb ${s%:*} | grep . > deb.script; rpm -qp --qf "%{${s#*:}}\n" $rpm | grep . > rpm.script
  diff deb.script rpm.script
done
rpm -qpR $rpm | grep -qx systemd
sh -n deb.script`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", dir, program)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: the packages differ: %v\n%s", program, err, out)
	}
}
