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

// treeFormat must be incremented when a change below alters the contents of a tree.
const treeFormat = 3

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
