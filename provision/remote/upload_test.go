package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

// asRoot skips the test where uploads, which are put in place by root, would need sudo.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("uploads are put in place by root")
	}
}

// only expects these names in a folder, and nothing else.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("in %s: got %q, want %q", dir, got, names)
	}
}

func TestUpload(t *testing.T) {
	t.Parallel()
	asRoot(t)
	for name, config := range map[string]string{"sftp": "", "no sftp": "Subsystem none /bin/false", "broken sftp": "Subsystem sftp /bin/echo"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connected(t, config)
			dir := t.TempDir()
			for _, size := range []int{0, 1, 32 << 10, 5<<20 + 1} {
				data, source := content(size)
				last := int64(-1)
				u := host.Upload{Source: source, Size: int64(size), Path: filepath.Join(dir, "it's [a] file"), Mode: 0o750, Group: "daemon",
					Progress: func(sent, of int64) {
						if sent < last || of != int64(size) {
							t.Errorf("progress went from %d to %d of %d", last, sent, of)
						}
						last = sent
					}}
				if err := c.Upload(t.Context(), u); err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(u.Path)
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes: got %d, %v", size, len(got), err)
				}
				if size > 0 && last != int64(size) {
					t.Errorf("%d bytes: the last progress was %d", size, last)
				}
			}
			only(t, dir, "it's [a] file")
			out := run(t, c, host.Command{Script: "stat -c '%a %U %G' " + host.Quote(dir) + "/it*"})
			if out.Stdout != "750 root daemon\n" {
				t.Errorf("got %q", out.Stdout)
			}
		})
	}
}

func TestUploadFaults(t *testing.T) {
	t.Parallel()
	asRoot(t)
	c := connected(t, "")
	dir := t.TempDir()
	old := filepath.Join(dir, "file")
	if err := os.WriteFile(old, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	data, source := content(100_000)
	for _, f := range []struct {
		u    host.Upload
		want string
	}{
		{host.Upload{Source: source, Size: 100_000, Path: dir + "/gone/file"}, "the folder " + dir + "/gone does not exist"},
		{host.Upload{Source: source, Size: 100_001, Path: old}, "its source has 100000 bytes, and 100001 were promised"},
		{host.Upload{Source: source, Size: 100_000, Path: "file"}, "want an absolute path"},
		{host.Upload{Source: source, Size: 100_000, Path: old, Owner: "nobody-of-that-name"}, "nobody-of-that-name"},
		{host.Upload{Source: source, Size: 1 << 60, Path: old}, "promised"},
		{host.Upload{Source: source, Size: 100_000, SHA256: strings.Repeat("0", 64), Path: old}, "its source has changed since it was checked"},
		{host.Upload{Source: &changing{source}, Size: 100_000, Path: old}, "its SHA-256 is"},
	} {
		err := c.Upload(t.Context(), f.u)
		if err == nil || !strings.Contains(err.Error(), f.want) {
			t.Errorf("got %v, want %q in it", err, f.want)
		}
	}
	only(t, dir, "file")
	if text, err := os.ReadFile(old); err != nil || string(text) != "old" {
		t.Errorf("the old file: got %q, %v", text, err)
	}

	// A running program is replaced.
	program := filepath.Join(dir, "sleep")
	binary, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	writeProgram(t, program, binary)
	cmd := exec.Command(program, "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	if err := c.Upload(t.Context(), host.Upload{Source: bytes.NewReader(data), Size: int64(len(data)), Path: program, Mode: 0o755}); err != nil {
		t.Error(err)
	}
}

// changing is a file that changes while it is read: the first read returns other bytes than later
// reads.
type changing struct{ io.ReaderAt }

func (c *changing) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	if off == 0 && n > 0 {
		defer func() { c.ReaderAt = bytes.NewReader(make([]byte, 100_000)) }()
	}
	return n, err
}

func TestUploadFullDisk(t *testing.T) {
	t.Parallel()
	asRoot(t)
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	c := connected(t, "")
	_, source := content(2 << 20)
	u := host.Upload{Source: source, Size: 2 << 20, Path: filepath.Join(dir, "file")}
	err := c.Upload(t.Context(), u)
	if err == nil || !strings.Contains(err.Error(), "no space on "+dir+" (tmpfs): 1.0 MiB are free, and 2.0 MiB are needed\nhint: ") {
		t.Errorf("known before: got %v", err)
	}
	only(t, dir)

	// The disk becomes full during the upload.
	_, source = content(900 << 10)
	u = host.Upload{Source: source, Size: 900 << 10, Path: filepath.Join(dir, "file"), Progress: func(sent, _ int64) {
		if sent <= 64<<10 {
			if err := os.WriteFile(filepath.Join(dir, "other"), make([]byte, 600<<10), 0o600); err != nil {
				t.Error(err)
			}
		}
	}}
	err = c.Upload(t.Context(), u)
	if err == nil || !strings.Contains(err.Error(), "no space on "+dir) {
		t.Errorf("while uploading: got %v", err)
	}
	only(t, dir, "other")
}

// isOpen reports whether a process has the file open.
func isOpen(t *testing.T, path string) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("open files: %d, %v", len(files), err)
	}
	for _, f := range files {
		if to, _ := os.Readlink(f); to == path { // the link of a file that was closed meanwhile leads nowhere
			return true
		}
	}
	return false
}

// TestUploadCut cuts the connection in the middle: the old file stays, and a later upload removes
// what is left of the new one.
func TestUploadCut(t *testing.T) {
	t.Parallel()
	asRoot(t)
	m := newMe(t)
	s := newServer(t, "", m.key.PublicKey())
	p := newProxy(t, s.address())
	h := hostOf(s)
	h.Port = p.port()
	m.knows(t, "127.0.0.1:"+itoa(p.port()), s.host.PublicKey())
	c := m.mustDial(t, h)
	dir := t.TempDir()
	target := filepath.Join(dir, "file")
	if err := os.WriteFile(target, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, source := content(8 << 20)
	p.set(func() { p.cutAfter = p.sent + 2<<20 })
	err := c.Upload(t.Context(), host.Upload{Source: source, Size: 8 << 20, Path: target})
	faultOf(t, err, login.Lost, "the connection was cut")
	if text, err := os.ReadFile(target); err != nil || string(text) != "old" {
		t.Errorf("the old file: got %d bytes, %v", len(text), err)
	}
	left, err := filepath.Glob(dir + "/" + stageName + "*")
	if err != nil || len(left) != 1 {
		t.Fatalf("left over: got %q, %v, want one", left, err)
	}
	// sshd still writes the data that it has received.
	for isOpen(t, left[0]) {
		time.Sleep(20 * time.Millisecond)
	}
	fresh := filepath.Join(dir, stageName+"file-of-somebody-else")
	if err := os.WriteFile(fresh, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-5 * time.Minute)
	if err := os.Chtimes(left[0], past, past); err != nil {
		t.Fatal(err)
	}
	p.set(func() { p.cutAfter = 0 })
	if err := m.mustDial(t, h).Upload(t.Context(), host.Upload{Source: source, Size: 8 << 20, Path: target}); err != nil {
		t.Fatal(err)
	}
	only(t, dir, filepath.Base(fresh), "file")
}

func TestUploadCancel(t *testing.T) {
	t.Parallel()
	asRoot(t)
	c := connected(t, "")
	dir := t.TempDir()
	_, source := content(8 << 20)
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Upload(ctx, host.Upload{Source: source, Size: 8 << 20, Path: filepath.Join(dir, "file"), Progress: func(sent, _ int64) {
		if sent > 1<<20 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	only(t, dir)
}

func TestRoom(t *testing.T) {
	t.Parallel()
	line := "/dev/sda1       1000    900      100      90% /var/lib my disk\n"
	if err := room(line, 100<<10); err != nil {
		t.Error(err)
	}
	if err := room(line, 100<<10+1); err == nil || !strings.Contains(err.Error(), "/var/lib my disk (/dev/sda1)") {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{"", "df: no\n", "Filesystem 1024-blocks Used Available Capacity Mounted on\n"} {
		if err := room(text, 1<<40); err != nil {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// TestUnderWay: a near host has few writes under way, a far one as many as fill the line.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	for rtt, want := range map[time.Duration]int{0: 16, 300 * time.Microsecond: 16, 20 * time.Millisecond: 36, 200 * time.Millisecond: 64, time.Hour: 64} {
		if n := underWay(rtt); n != want {
			t.Errorf("%s: %d writes, want %d", rtt, n, want)
		}
	}
}
