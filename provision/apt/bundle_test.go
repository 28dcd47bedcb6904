package apt

import (
	"archive/tar"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a folder of files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sums is the SHA256SUMS of files.
func sums(files map[string]string) string {
	var text strings.Builder
	for name, content := range files {
		fmt.Fprintf(&text, "%x  ./%s\n", sha256.Sum256([]byte(content)), name)
	}
	return text.String()
}

// pack makes a tar of a folder; the names in it begin with prefix.
func pack(t *testing.T, dir, prefix string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "bundle.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: prefix + filepath.ToSlash(name), Size: int64(len(text)), Mode: 0o644}); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func TestBundle(t *testing.T) {
	t.Parallel()
	debs := map[string]string{"debian12-amd64/a_1_amd64.deb": "aaa", "debian13-amd64/a_2_amd64.deb": "bbbb", "all_1_all.deb": strings.Repeat("c", 5000)}
	files := map[string]string{Sums: sums(debs), "README": "not listed, not a package"}
	for name, text := range debs {
		files[name] = text
	}
	dir := write(t, files)
	for _, path := range []string{dir, pack(t, dir, ""), pack(t, dir, "./"), pack(t, dir, "site/")} {
		b, err := OpenBundle(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.of("debian12-amd64")
		if err != nil {
			t.Fatal(err)
		}
		var contents []string
		for _, d := range got {
			text, err := io.ReadAll(io.NewSectionReader(d.source, 0, d.size))
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, string(text[:3]))
		}
		slices.Sort(contents)
		if want := []string{"aaa", "ccc"}; !slices.Equal(contents, want) {
			t.Errorf("%s: got %q, want %q", path, contents, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestBundleFaults(t *testing.T) {
	t.Parallel()
	good := map[string]string{"debian12-amd64/a.deb": "aaa"}
	for want, files := range map[string]map[string]string{
		"openat SHA256SUMS":                       {"a.deb": "aaa"},
		"hint: in the folder: find":               {"a.deb": "aaa"},
		"a.deb: it is damaged":                    {Sums: sums(map[string]string{"a.deb": "aaa"}), "a.deb": "aab"},
		"b.deb: not in SHA256SUMS":                {Sums: sums(map[string]string{"a.deb": "aaa"}), "a.deb": "aaa", "b.deb": "b"},
		"c.deb: in SHA256SUMS, but not there":     {Sums: sums(map[string]string{"a.deb": "aaa", "c.deb": "c"}), "a.deb": "aaa"},
		"SHA256SUMS:1: want lines as sha256sum":   {Sums: "hello\n", "a.deb": "aaa"},
		"urifilter: it is damaged":                {Sums: sums(map[string]string{"a.deb": "aaa", "urifilter": "1"}), "a.deb": "aaa", "urifilter": "2"},
		"urifilter: in SHA256SUMS, but not there": {Sums: sums(map[string]string{"a.deb": "aaa", "urifilter": "1"}), "a.deb": "aaa"},
		"hint: copy it again":                     {Sums: sums(map[string]string{"a.deb": "aaa"}), "a.deb": "aab"},
		"it holds no .deb file":                   {Sums: "\n"},
		"nothing is in it for ubuntu22.04-arm64":  {Sums: sums(good), "debian12-amd64/a.deb": "aaa"},
		"hint: it has debian12-amd64":             {Sums: sums(good), "debian12-amd64/a.deb": "aaa"},
	} {
		b, err := OpenBundle(write(t, files))
		if err == nil {
			_, err = b.of("ubuntu22.04-arm64")
			if closeErr := b.Close(); closeErr != nil {
				t.Error(closeErr)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	compressed := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if err := os.WriteFile(compressed, append([]byte{0x1f, 0x8b, 8}, make([]byte, 2000)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenBundle(compressed); err == nil || !strings.Contains(err.Error(), "not compressed") {
		t.Errorf("compressed: got %v", err)
	}
}

// What a collection has left that found no room on the disk, or was killed, is no part of a bundle: it is carried to a
// site where nobody can make another.
func TestBundleAfterACollectionThatFailed(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"debian12-amd64/a.deb": "a", "debian12-amd64/b.deb.new": "half of b", Sums + ".new": "half of the sums"})
	if err := WriteSums(dir); err != nil {
		t.Fatal(err)
	}
	b, err := OpenBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
