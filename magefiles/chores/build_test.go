package chores

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// The programs for servers are static, built for the requested machine, and identical when
// they are built from a copy of the tree in another folder.
func TestSystemBuildFor(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	// A copy of what go build reads, so that the paths differ.
	elsewhere := filepath.Join(t.TempDir(), "copy")
	for _, name := range []string{"go.mod", "go.sum", "client", "configs", "daemon", "systemd"} {
		if err := copyTree(filepath.Join(root, name), filepath.Join(elsewhere, name)); err != nil {
			t.Fatal(err)
		}
	}
	small := filepath.Join(elsewhere, "small")
	if err := errors.Join(os.Mkdir(small, 0o700), os.WriteFile(filepath.Join(small, "main.go"), []byte("package main\n\nfunc main() { println(1) }\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, arch := range servers() {
		pkg, out := daemon, filepath.Join(t.TempDir(), "urifilter-linux-"+arch)
		if arch != runtime.GOARCH {
			pkg = "./small" // each package of the daemon would be compiled for this test alone
		}
		if err := (Repo{Dir: elsewhere, Out: t.Output()}).BuildFor(t.Context(), pkg, "linux", arch, out); err != nil {
			t.Fatal(err)
		}
		file, err := elf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		if file.Machine != machines[arch] {
			t.Errorf("%s: it is for %s", arch, file.Machine)
		}
		_ = file.Close()
		if pkg != daemon || testing.Short() {
			continue
		}
		third := filepath.Join(t.TempDir(), "another")
		if err := os.Rename(elsewhere, third); err != nil {
			t.Fatal(err)
		}
		again := out + ".again"
		if err := (Repo{Dir: third, Out: t.Output()}).BuildFor(t.Context(), daemon, "linux", arch, again); err != nil {
			t.Fatal(err)
		}
		elsewhere = third
		if !sameBytes(t, out, again) {
			t.Errorf("%s: two builds of the same files differ", arch)
		}
	}
}

// A file that lies in the tree, or a commit of what does not go into the program, changes what is
// stamped into it and not its content.
func TestContentIsWhatGoesIntoTheProgram(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	build := func() (content, bytes string) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "x")
		content, err := (Repo{Dir: dir, Out: t.Output()}).BuildRelease(t.Context(), ".", "amd64", out)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return content, string(data)
	}
	write("go.mod", "module example.com/x\n\ngo 1.24\n")
	write("main.go", "package main\n\nfunc main() { println(1) }\n")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	content, clean := build()
	write("deploy.log", "what deploy has printed\n")
	again, modified := build()
	if again != content || modified == clean {
		t.Errorf("an untracked file: content %s after %s, other bytes: %v", again, content, modified != clean)
	}
	git("add", ".")
	git("commit", "-q", "-m", "second")
	if again, _ := build(); again != content {
		t.Errorf("a commit of another file: content %s after %s", again, content)
	}
	write("main.go", "package main\n\nfunc main() { println(2) }\n")
	if again, _ := build(); again == content {
		t.Error("another program has the same content")
	}
}

func sameBytes(t *testing.T, a, b string) bool {
	t.Helper()
	first, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(first, second)
}

func copyTree(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.Create(to)
	if err != nil {
		return err
	}
	defer target.Close()
	_, err = io.Copy(target, source)
	return err
}

func TestStatic(t *testing.T) {
	t.Parallel()
	if err := static(filepath.Join("testdata", "none")); err == nil {
		t.Error("a file that does not exist passes")
	}
	if err := static("build_test.go"); err == nil {
		t.Error("a file that is no program passes")
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return
	}
	if file, err := elf.Open(shell); err != nil || file.Close() != nil || file.Section(".interp") == nil {
		return // a static shell, or not an ELF file
	}
	if err := static(shell); err == nil {
		t.Error("a program with a loader passes")
	}
}
