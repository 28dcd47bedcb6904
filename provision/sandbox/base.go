package sandbox

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// treeFormat must be incremented when a change below alters the contents of a tree.
const treeFormat = 6

// included are the packages of a fresh Debian server, so far as they matter to the toolkit.
// The toolkit must install what is not among them.
const included = "systemd,systemd-sysv,libpam-systemd,dbus,openssh-server,sudo,iproute2,ca-certificates,procps,tzdata"

// carried are packages that a tree contains downloaded but not installed, so that each host
// does not download them again. apt checks them and downloads others if they are old. The tree
// has apt's lists too: an update on a host asks for newer lists, and downloads only those.
const carried = "redis-server cron"

// baseTree returns the root file system that all hosts of a release share, and makes it if it
// is missing. Concurrent callers wait.
func baseTree(ctx context.Context, cache, release string, out io.Writer) (string, error) {
	from, err := aptSources(ctx, release)
	if err != nil {
		return "", err
	}
	key := sha256.Sum256([]byte(fmt.Sprint(treeFormat, included, carried, from)))
	tree := filepath.Join(cache, fmt.Sprintf("%s-%x", release, key[:6]))
	if exists(tree) {
		return tree, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	lock, err := lockFile(ctx, filepath.Join(cache, release+".lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	ctx = holding(ctx, lock)
	if exists(tree) {
		return tree, nil
	}
	fmt.Fprintf(out, "making the root file system of %s, once; about half a minute\n", release)
	if err := makeTree(ctx, tree, release, from); err != nil {
		return "", fmt.Errorf("root file system of %s: %w", release, err)
	}
	return tree, nil
}

// idle, a script with a tree as $1, turns off what does nothing on such a host and takes time: a dozen
// generators at each boot and each daemon-reload, questions of packages before each installation,
// translations of package descriptions, two fifths of what apt reads, the writing of each file of a package
// to the disk before the next, and a user's own systemd, which would start again with each login.
const idle = `for generator in "$1"/lib/systemd/system-generators/*; do
	case $generator in */systemd-sysv-generator) continue;; esac
	mkdir -p "$1"/etc/systemd/system-generators
	ln -s /dev/null "$1"/etc/systemd/system-generators/"${generator##*/}"
done
rm -f "$1"/etc/apt/apt.conf.d/70debconf
echo 'Acquire::Languages "none";' >"$1"/etc/apt/apt.conf.d/90languages
echo force-unsafe-io >"$1"/etc/dpkg/dpkg.cfg.d/unsafe-io
mkdir -p "$1"/var/lib/systemd/linger
touch "$1"/var/lib/systemd/linger/root "$1"/var/lib/systemd/linger/deploy`

// makeTree builds the tree beside its place and renames it when it is complete.
func makeTree(ctx context.Context, tree, release string, from sources) error {
	old, err := filepath.Glob(filepath.Join(filepath.Dir(tree), release+"-*.new"))
	if err != nil {
		return err
	}
	for _, o := range append(old, tree+".new") { // left by builders that died
		if err := removeTree(o); err != nil {
			return err
		}
	}
	args := []string{
		// When it ends, its mounts and all processes that it started end too.
		"--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "mmdebstrap",
		"--variant=minbase", "--include=" + included,
		// Each host makes its own.
		"--customize-hook=rm -f \"$1\"/etc/ssh/ssh_host_* \"$1\"/etc/hostname",
		"--customize-hook=chroot \"$1\" apt-get clean",
		"--customize-hook=chroot \"$1\" apt-get install -y --no-install-recommends --download-only " + carried,
		"--customize-hook=" + idle,
		"--skip=cleanup/apt/cache", "--skip=cleanup/apt/lists",
	}
	args = append(args, carryFiles()...)
	for _, option := range from.options {
		args = append(args, "--aptopt="+option)
	}
	args = append(args, release, tree+".new")
	if len(from.lines) > 0 {
		args = append(args, "-")
	}
	if err := runInput(ctx, strings.Join(from.lines, "\n")+"\n", "unshare", args...); err != nil {
		return err
	}
	return os.Rename(tree+".new", tree)
}

// carryFiles returns the options of mmdebstrap that copy what the machine's apt needs to
// reach a mirror: credentials, and certificates of a private authority.
func carryFiles() []string {
	var options []string
	if files, err := filepath.Glob("/etc/apt/auth.conf.d/*.conf"); err == nil && len(files) > 0 {
		options = append(options, "--essential-hook=copy-in "+strings.Join(files, " ")+" /etc/apt/auth.conf.d")
	}
	if exists("/etc/apt/auth.conf") {
		options = append(options, "--essential-hook=copy-in /etc/apt/auth.conf /etc/apt")
	}
	if files, err := filepath.Glob("/usr/local/share/ca-certificates/*.crt"); err == nil && len(files) > 0 {
		options = append(options,
			"--customize-hook=copy-in "+strings.Join(files, " ")+" /usr/local/share/ca-certificates",
			"--customize-hook=chroot \"$1\" update-ca-certificates")
	}
	return options
}

// removeTree deletes a folder of root file systems. It refuses if something in it is mounted
// in this name space, which should not happen: the mounted files would be deleted too.
func removeTree(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == dir || strings.HasPrefix(f[4], dir+"/")) {
			return fmt.Errorf("remove %s: %s is mounted\nhint: umount %s", dir, f[4], f[4])
		}
	}
	return os.RemoveAll(dir)
}

// sources are where this machine's apt gets Debian from: its mirror and proxy, which the
// hosts use too.
type sources struct {
	lines   []string // of a sources.list; none: Debian's own
	options []string // of apt.conf
}

func aptSources(ctx context.Context, release string) (sources, error) {
	aptMu.Lock()
	defer aptMu.Unlock()
	if known, ok := aptKnown[release]; ok {
		return known, nil
	}
	osRelease, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return sources{}, err
	}
	targets, err := output(ctx, "apt-get", "indextargets", "--format",
		"$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)", "Created-By: Packages")
	if err != nil {
		return sources{}, err
	}
	config, err := output(ctx, "apt-config", "dump")
	if err != nil {
		return sources{}, err
	}
	from := sources{lines: sourceLines(targets, ownCodename(string(osRelease)), release), options: aptOptions(config)}
	aptKnown[release] = from
	return from, nil
}

// aptKnown has the sources by release, once they were asked for: apt takes seconds to say them, and each host needs them.
var (
	aptMu    sync.Mutex
	aptKnown = map[string]sources{}
)

// ownCodename returns the release of Debian that the machine has, "" for another system.
func ownCodename(osRelease string) string {
	fields := map[string]string{}
	for line := range strings.Lines(osRelease) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		fields[name] = strings.Trim(value, `"`)
	}
	if fields["ID"] != "debian" {
		return ""
	}
	return fields["VERSION_CODENAME"]
}

// sourceLines makes the lines of a sources.list for a release out of those that apt has for
// the machine's own release: a mirror that has the one has the other too. Anything that is
// signed with a key other than Debian's is not Debian.
func sourceLines(targets, own, release string) []string {
	var lines []string
	if own == "" {
		return nil
	}
	for line := range strings.Lines(targets) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 5 || f[0] != "Packages" || f[3] != "main" {
			continue
		}
		suite, isOwn := strings.CutPrefix(f[2], own)
		signed := f[4] == "" || strings.HasPrefix(f[4], "$(") || strings.Contains(f[4], "debian-archive")
		if !isOwn || !signed || !slices.Contains([]string{"", "-updates", "-security"}, suite) {
			continue
		}
		entry := "deb " + f[1] + " " + release + suite + " main"
		if !slices.Contains(lines, entry) {
			lines = append(lines, entry)
		}
	}
	return lines
}

// carriedOptions matches the settings of apt that it needs to reach the mirror.
var carriedOptions = regexp.MustCompile(`^Acquire::(https?(::[^ ]*)?::(Proxy|Verify-Peer|Verify-Host)[^ ]*|Check-Valid-Until|Check-Date|Retries|ForceIPv4|ForceIPv6) ".+";$`)

func aptOptions(config string) []string {
	var options []string
	for line := range strings.Lines(config) {
		if line = strings.TrimSpace(line); carriedOptions.MatchString(line) {
			options = append(options, strings.TrimSuffix(line, ";"))
		}
	}
	return options
}
