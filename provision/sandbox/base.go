package sandbox

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// treeFormat goes up when something below changes what a tree holds.
const treeFormat = 3

// included is what a fresh Debian server has, so far as it matters to the toolkit. Not
// in it is what the toolkit has to install.
const included = "systemd,systemd-sysv,libpam-systemd,dbus,openssh-server,sudo,iproute2,ca-certificates,procps,tzdata"

// carried are packages that lie downloaded but not installed in the tree, so that each
// host does not download them again. apt checks them and takes others if they are old. Its lists
// are there too: an update on a host asks whether there are others, and downloads those alone.
const carried = "redis-server cron"

// baseTree returns the root file system that all hosts of a release share, made if
// missing. Whoever comes meanwhile waits.
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

// makeTree builds beside the tree and renames it into place when it is whole.
func makeTree(ctx context.Context, tree, release string, from sources) error {
	old, err := filepath.Glob(filepath.Join(filepath.Dir(tree), release+"-*.new"))
	if err != nil {
		return err
	}
	for _, o := range append(old, tree+".new") { // of builders that died
		if err := removeTree(o); err != nil {
			return err
		}
	}
	args := []string{
		// Its mounts and processes, also of what it starts, end with it.
		"--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "mmdebstrap",
		"--variant=minbase", "--include=" + included,
		// Each host makes its own.
		"--customize-hook=rm -f \"$1\"/etc/ssh/ssh_host_* \"$1\"/etc/hostname",
		"--customize-hook=chroot \"$1\" apt-get clean",
		"--customize-hook=chroot \"$1\" apt-get install -y --download-only " + carried,
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

// carryFiles are options of mmdebstrap that copy what the machine's apt needs to reach a
// mirror: credentials, and certificates of a private authority.
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

// removeTree deletes a folder of root file systems. Nothing of them is mounted where
// others see it; were it so after all, what is mounted would be deleted too.
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
