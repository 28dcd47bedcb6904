package daemon_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// completed has the place of each shell's completions below share, as packages for Debian have them, and the file of
// settings with which a shell finds them and shows when it waits for a line.
var completed = []struct {
	name, place, file, settings string
	args                        []string
}{
	{"bash", "bash-completion/completions/NAME", "bashrc", "PS1='READY> '\nsource /usr/share/bash-completion/bash_completion\n", []string{"--noprofile", "--rcfile", "bashrc", "-i"}},
	{"zsh", "zsh/vendor-completions/_NAME", ".zshrc", "PS1='READY> '\nfpath=($PWD/share/zsh/vendor-completions $fpath)\nautoload -Uz compinit\ncompinit -u -D\n", []string{"-d", "-i"}},
	{"fish", "fish/vendor_completions.d/NAME.fish", "fish/config.fish", "function fish_prompt; echo 'READY> '; end\n", []string{"-i"}},
}

// typed is a shell on a terminal at which a person types.
type typed struct {
	t    *testing.T
	name string
	keys io.Writer

	mu    sync.Mutex
	shown bytes.Buffer
	read  int // how much of shown has been waited for
}

func (s *typed) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.Write(p)
}

// await waits until the shell has shown a text after those that were awaited before.
func (s *typed) await(text string) {
	s.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		at := strings.Index(s.shown.String()[s.read:], text)
		if at >= 0 {
			s.read += at + len(text)
			s.mu.Unlock()
			return
		}
		rest := s.shown.String()
		s.mu.Unlock()
		if time.Now().After(end) {
			s.t.Fatalf("%s does not show %q:\n%q", s.name, text, rest)
		}
	}
}

func (s *typed) press(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.keys, keys); err != nil {
		s.t.Fatal(err)
	}
}

// In real shells the tabulator completes a command, a flag, and a name that the daemon tells.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	filter, downloader := freePort(t), freePort(t)
	env := append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "ZDOTDIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_DIRS="+dir+"/share:/usr/share",
		"TERM=dumb", "URIFILTER_URL=http://"+filter, "URIDOWNLOADER_URL=http://"+downloader)
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for program, addr := range map[string]string{"urifilter": filter, "uridownloader": downloader} {
		binary := filepath.Join(dir, program)
		if err := testserver.Program(binary, "-trimpath", "./"+program); err != nil {
			t.Fatal(err)
		}
		for _, shell := range completed {
			script, err := exec.CommandContext(t.Context(), binary, "completion", shell.name).Output()
			if err != nil {
				t.Fatal(err)
			}
			write(filepath.Join("share", strings.ReplaceAll(shell.place, "NAME", program)), string(script))
		}
		running(t, binary, "serve", "--listen", addr, "--data-dir", filepath.Join(dir, program+"-data"))
	}
	// Otherwise fish reads all manual pages of the machine behind the scenes.
	write(".local/share/fish/generated_completions/none", "")
	write("uris.txt", "http://127.0.0.1:9/\n")
	write("job.yaml", "name: news\nuris: uris.txt\n")
	for _, command := range []string{"urifilter filters list", "uridownloader job add job.yaml"} { // when they are there
		words := strings.Fields(command)
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, words[0]), words[1:]...)
			cmd.Env, cmd.Dir = env, dir
			out, err := cmd.CombinedOutput()
			if err == nil {
				break
			}
			if time.Now().After(end) || !strings.Contains(string(out), "connection refused") {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
		}
	}
	for _, shell := range completed {
		t.Run(shell.name, func(t *testing.T) {
			if _, err := exec.LookPath(shell.name); err != nil {
				t.Skipf("%v; on Debian: apt-get install zsh fish bash-completion", err)
			}
			write(shell.file, shell.settings)
			cmd := exec.CommandContext(t.Context(), "script", "-qefc", "exec "+shell.name+" "+strings.Join(shell.args, " "), os.DevNull)
			s := &typed{t: t, name: shell.name}
			cmd.Dir, cmd.Env, cmd.Stdout = dir, env, s
			keys, err := cmd.StdinPipe()
			if err := errors.Join(err, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			s.keys = keys
			for _, try := range []struct{ keys, want string }{
				{"urifilter commi\t--help\n", "help for commit"},
				{"urifilter filters show uri_gen\t--js\t\n", `"name": "uri_generator"`},
				{"uridownloader job sho\t--help\n", "help for show"},
				{"uridownloader job show ne\t--js\t\n", `"name":"news"`},
			} {
				s.await("READY> ")
				s.press(try.keys)
				s.await(try.want)
			}
			s.await("READY> ")
			s.press("exit\n")
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// groff, which is what man shows pages with, reads all without a warning.
func TestManualPages(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skipf("%v; on Debian: apt-get install groff-base", err)
	}
	for _, program := range []string{"urifilter", "uridownloader"} {
		dir := filepath.Join(t.TempDir(), program)
		if out, err := exec.CommandContext(t.Context(), "go", "run", "-trimpath", "./"+program, "man", "--dir", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
		if err != nil || len(pages) < 30 {
			t.Fatal(err, pages)
		}
		// As man reads one, but in one go: it starts ten processes for each.
		cmd := exec.CommandContext(t.Context(), "groff", append([]string{"-K", "utf-8", "-t", "-mandoc", "-T", "utf8", "-w", "w", "-P", "-cbou"}, pages...)...)
		var out, warnings bytes.Buffer
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		cmd.Stdout, cmd.Stderr = &out, &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%v\n%s", err, &warnings)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, page := range pages {
			if name := strings.TrimSuffix(filepath.Base(page), ".1"); !strings.Contains(text, "NAME "+name+" - ") {
				t.Errorf("%s does not begin with its name", page)
			}
		}
	}
}
