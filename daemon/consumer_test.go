package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// published is the version that a consumer gets of each module: a commit without a tag.
const published = "v0.0.0-20260102030405-0123456789ab"

// TestConsumer is a module outside of this tree that gets our packages as the world does: through a
// module proxy, from the files that go into a module's zip file. There the go.mod of each
// module stands alone, and a replace has no effect.
func TestConsumer(t *testing.T) {
	t.Parallel()
	proxy := t.TempDir()
	var packages, commands []string
	for _, folder := range moduleFolders(t, "..") {
		path := publish(t, proxy, folder)
		for _, name := range goFolders(t, folder) {
			full := strings.TrimSuffix(path+"/"+name, "/.")
			switch {
			case isCommand(t, filepath.Join(folder, name)):
				commands = append(commands, full)
			case !slices.Contains(strings.Split(full, "/"), "internal"):
				packages = append(packages, full)
			}
		}
	}
	for _, want := range []string{"client", "client/clienttest", "client/collystorage"} {
		if !slices.Contains(packages, module+"/"+want) {
			t.Errorf("%s is not among what a consumer can import: %q", want, packages)
		}
	}
	for _, want := range []string{"daemon/urifilter", "daemon/uridownloader"} {
		if !slices.Contains(commands, module+"/"+want) {
			t.Errorf("%s is not among the commands that can be installed: %q", want, commands)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	goCommand(t, "..", nil, "list", "-deps", "./client/...") // fetches what they need of others; nothing more is asked of a network
	cache := strings.TrimSpace(goCommand(t, "..", nil, "env", "GOMODCACHE"))
	env := []string{
		"GOPROXY=file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")),
		"GONOSUMDB=*", "GOFLAGS=-modcacherw " + os.Getenv("GOFLAGS"), "GOWORK=off", "GOMODCACHE=" + t.TempDir(),
	}
	for _, p := range packages {
		if !strings.HasPrefix(p, module+"/client") {
			continue
		}
		consumer := newConsumer(t)
		goCommand(t, consumer, env, "get", p)
		writeFile(t, filepath.Join(consumer, "consumer.go"), fmt.Sprintf("package consumer\n\nimport _ %q\n", p))
		goCommand(t, consumer, env, "build", "./...")
		if p != module+"/client" {
			continue
		}
		if imported := goCommand(t, consumer, env, "list", "-deps", "-f", "{{if and (not .Standard) (ne .Module.Path \"example.org/consumer\")}}{{.ImportPath}}{{end}}", "."); strings.TrimSpace(imported) != p {
			t.Errorf("beside the standard library, the client imports:\n%s", imported)
		}
	}
}

func newConsumer(t *testing.T) string {
	t.Helper()
	consumer := t.TempDir()
	writeFile(t, filepath.Join(consumer, "go.mod"), "module example.org/consumer\n\ngo 1.26.0\n")
	return consumer
}

// moduleFolders are the folders of this repository that have a go.mod.
func moduleFolders(t *testing.T, root string) (folders []string) {
	t.Helper()
	for name := range walk(t, root) {
		if filepath.Base(name) == "go.mod" {
			folders = append(folders, filepath.Dir(name))
		}
	}
	return folders
}

// goFolders are the folders with Go code of one module.
func goFolders(t *testing.T, folder string) (names []string) {
	t.Helper()
	err := walkGo(folder, func(_, relative string) error {
		dir := filepath.ToSlash(filepath.Dir(relative))
		if !strings.HasSuffix(relative, "_test.go") && !slices.Contains(names, dir) {
			names = append(names, dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func isCommand(t *testing.T, folder string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains("\n"+string(text), "\npackage main\n")
	})
}

// publish puts the module of a folder into a proxy, and returns its path.
func publish(t *testing.T, proxy, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse(filepath.Join(folder, "go.mod"), text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range mod.Replace {
		t.Errorf("%s replaces %s: that is without effect for a consumer, and go install PACKAGE@VERSION refuses it", mod.Syntax.Name, r.Old.Path)
	}
	for _, r := range mod.Exclude {
		t.Errorf("%s excludes %s: go install PACKAGE@VERSION refuses that", mod.Syntax.Name, r.Mod)
	}
	version := gomodule.Version{Path: mod.Module.Mod.Path, Version: published}
	escaped, err := gomodule.EscapePath(version.Path)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped))
	if err := os.MkdirAll(filepath.Join(dir, "@v"), 0o755); err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"Version": published, "Time": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "@latest"), string(info))
	writeFile(t, filepath.Join(dir, "@v", "list"), "")
	writeFile(t, filepath.Join(dir, "@v", published+".info"), string(info))
	writeFile(t, filepath.Join(dir, "@v", published+".mod"), string(text))
	out, err := os.Create(filepath.Join(dir, "@v", published+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.Create(out, version, zipFiles(t, folder)); err != nil {
		t.Errorf("%s cannot be published: %v", version.Path, err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return version.Path
}

// zipFiles are the files of a module: all below its folder but those of other modules, those of vendor
// folders, and what is not in version control.
func zipFiles(t *testing.T, folder string) (files []zip.File) {
	t.Helper()
	others := moduleFolders(t, folder)
	for name, entry := range walk(t, folder) {
		in := func(other string) bool {
			return other != folder && strings.HasPrefix(name, other+string(filepath.Separator))
		}
		if !entry.Type().IsRegular() || slices.ContainsFunc(others, in) {
			continue
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{name, filepath.ToSlash(relative)})
	}
	return files
}

// file is one file of a module.
type file struct{ name, path string }

func (f file) Path() string                 { return f.path }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(f.name) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(f.name) }

// walk yields the files below root, but for what is not in version control.
func walk(t *testing.T, root string) func(yield func(string, fs.DirEntry) bool) {
	t.Helper()
	return func(yield func(string, fs.DirEntry) bool) {
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case name != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "dist" || entry.Name() == "__pycache__" || entry.Name() == "build" || strings.HasSuffix(entry.Name(), ".egg-info")):
				if entry.IsDir() {
					return filepath.SkipDir
				}
				return nil
			case entry.IsDir():
				return nil
			case !yield(name, entry):
				return filepath.SkipAll
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func goCommand(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s%s", strings.Join(args, " "), err, out, &errOut)
	}
	return string(out)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
