// Package e2e tests the toolkit as its users run it: the mage targets, as processes of
// their own, on real hosts with systemd and sshd that exist only for the test.
//
// A Laptop is an operator's machine: a folder like a clone of the repository, with a home
// of its own, from which targets are run. Its hosts are those of package sandbox. A test
// creates a Laptop, deploys, and then tries what it is about:
//
//	l := e2e.New(t, e2e.Options{Hosts: []e2e.Host{{Name: "one", Roles: "filter, redis"}, {Name: "two", Sudo: true}}})
//	l.Must(t, "deploy")
//	l.Hosts["one"].Exec(...)                      // the truth, not through the toolkit
//	r := l.Mage(t, "deploy", "-binary="+l.Broken(t, programs.Exit))
//	if r.Code != fleet.CodeFailed || !strings.Contains(r.Text(), "rolled back") { ... }
//
// One Laptop with deployed hosts can serve many subtests, as long as each leaves the hosts
// as it found them: a deployment takes ten times as long as most checks.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/sandbox"
	"github.com/cr-clawer/urifilter/provision/sandbox/sandboxtest"
)

// Options of a Laptop.
type Options struct {
	Hosts []Host
	// Repository serves a package repository with FerretDB, which the inventory then names.
	Repository bool
	// Settings are keys of urifilter.yaml for all hosts, as YAML in one line:
	// "listen: 0.0.0.0:8000, uri_num_scale: 100000". "": the defaults.
	Settings string
	// More are lines of the inventory.
	More string
	// Sources makes the targets build the program from the sources, as operators do.
	// Without it a program is pushed that is built once for all tests.
	Sources bool
}

// Host is one that New creates.
type Host struct {
	Name    string
	Release string // bookworm (default) or trixie
	Roles   string // "filter, redis, mongodb"; "": filter
	// Sudo logs in as the user deploy, whose sudo asks for a password.
	Sudo bool
	// Disks are folders with a small file system of their own, and its size in bytes.
	Disks map[string]int64
}

// Laptop is an operator's machine.
type Laptop struct {
	Dir   string // the clone: configs/hosts.yaml, .urifilter, dist
	Home  string
	Hosts map[string]*sandbox.Host
	// Sandbox has what belongs to all hosts.
	Sandbox *sandbox.Sandbox
	// Password is that of sudo on hosts with Sudo.
	Password string
	// Environ is added to the environment of targets: NAME=value.
	Environ []string

	options Options
}

// New creates the hosts and an inventory of them. It skips the test if sandboxes are not
// available.
func New(t *testing.T, o Options) *Laptop {
	t.Helper()
	dir := t.TempDir()
	l := &Laptop{Dir: filepath.Join(dir, "clone"), Home: filepath.Join(dir, "home"), Hosts: map[string]*sandbox.Host{}, Password: "s3cret of sudo", options: o}
	var specs []sandbox.Spec
	for _, h := range o.Hosts {
		specs = append(specs, sandbox.Spec{Name: h.Name, Release: h.Release, Password: l.Password, Disks: h.Disks})
	}
	l.Sandbox = sandboxtest.Up(t, sandbox.Options{Hosts: specs, Repository: o.Repository})
	for _, h := range l.Sandbox.Hosts {
		l.Hosts[h.Name] = h
	}
	l.Environ = []string{"E2E_SUDO_PASSWORD=" + l.Password}
	if err := l.clone(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.WriteInventory(t, l.Inventory(t))
	return l
}

// clone creates the operator's folders. With Sources it copies what the targets compile.
func (l *Laptop) clone(ctx context.Context) error {
	if err := errors.Join(os.MkdirAll(filepath.Join(l.Dir, "configs"), 0o755), os.MkdirAll(l.Home, 0o700)); err != nil {
		return err
	}
	if !l.options.Sources {
		return nil
	}
	root, err := programs.Root(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(l.Dir, name), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"client", "configs", "daemon", "systemd"} {
		if err := os.CopyFS(filepath.Join(l.Dir, name), os.DirFS(filepath.Join(root, name))); err != nil {
			return err
		}
	}
	return nil
}

// Inventory returns the text of an inventory with all hosts.
func (l *Laptop) Inventory(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "defaults: {user: root, identity_file: %q, known_hosts: %q}\nhosts:\n", l.Sandbox.KeyFile, l.Sandbox.KnownHosts)
	for _, h := range l.options.Hosts {
		roles := cmp.Or(h.Roles, "filter")
		login := ""
		if h.Sudo {
			login = ", user: deploy, sudo_password_env: E2E_SUDO_PASSWORD"
		}
		fmt.Fprintf(&b, "  - {name: %s, address: %s, roles: [%s]%s}\n", h.Name, l.Hosts[h.Name].Address, roles, login)
	}
	if l.options.Settings != "" {
		fmt.Fprintf(&b, "settings: {%s}\n", l.options.Settings)
	}
	if r := l.Sandbox.Repository; r != nil {
		fmt.Fprintf(&b, "mongodb:\n  flavor: ferretdb\n  repository: {url: %q, suite: %s, component: %s, key_file: %q, packages: [%s]}\n",
			r.URL, r.Suite, r.Component, r.KeyFile, r.Package)
	}
	if !l.options.Sources {
		fmt.Fprintf(&b, "release: {binary: %q}\n", l.Program(t))
	}
	more := l.options.More
	// Half a minute is for real fleets. A healthy daemon has run for three seconds; tests about what
	// comes later say how long to watch it.
	if !strings.Contains(more, "bake:") {
		if !strings.Contains(more, "fleet: {") {
			more += "fleet: {}\n"
		}
		more = strings.Replace(more, "fleet: {", "fleet: {bake: 1s, ", 1)
	}
	b.WriteString(more)
	return b.String()
}

// WriteInventory replaces configs/hosts.yaml.
func (l *Laptop) WriteInventory(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.Dir, "configs", "hosts.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Result is what a target did.
type Result struct {
	Code           int
	Stdout, Stderr string
	Took           time.Duration
}

// Text returns all that it wrote.
func (r Result) Text() string { return r.Stdout + r.Stderr }

// Summary returns the last summary of a target that was run with -json.
func (r Result) Summary(t *testing.T) report.Summary {
	t.Helper()
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(r.Stdout), "\n")) {
		var e report.Event
		if err := json.Unmarshal([]byte(line), &e); err == nil && e.Summary != nil {
			return *e.Summary
		}
	}
	t.Fatalf("no summary in\n%s", r.Text())
	return report.Summary{}
}

// Mage runs a target to its end, whether it succeeds or not, and logs it.
func (l *Laptop) Mage(t *testing.T, args ...string) Result {
	t.Helper()
	return l.Start(t, args...).Wait(t)
}

// Must is Mage for a target that must succeed.
func (l *Laptop) Must(t *testing.T, args ...string) Result {
	t.Helper()
	r := l.Mage(t, args...)
	if r.Code != 0 {
		t.Fatalf("%s: exit code %d\n%s", strings.Join(args, " "), r.Code, r.Text())
	}
	return r
}

// Running is a target under way.
type Running struct {
	Cmd            *exec.Cmd
	stdout, stderr *output
	began          time.Time
	args           string
}

// output can be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Start starts a target, for instance one to interrupt.
func (l *Laptop) Start(t *testing.T, args ...string) *Running {
	t.Helper()
	return l.start(t, append([]string{compiled(t)}, args...))
}

// OnTerminal is Start with a terminal for its output.
func (l *Laptop) OnTerminal(t *testing.T, args ...string) *Running {
	t.Helper()
	return l.start(t, []string{"script", "-qefc", strings.Join(append([]string{"exec", compiled(t)}, args...), " "), os.DevNull})
}

func (l *Laptop) start(t *testing.T, words []string) *Running {
	t.Helper()
	r := &Running{Cmd: exec.Command(words[0], words[1:]...), stdout: &output{}, stderr: &output{}, began: time.Now(), args: strings.Join(words[1:], " ")}
	r.Cmd.Dir, r.Cmd.Stdout, r.Cmd.Stderr = l.Dir, r.stdout, r.stderr
	r.Cmd.Env = l.environ()
	if err := r.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.Cmd.ProcessState == nil { // the test has ended without waiting for it
			_ = r.Cmd.Process.Kill()
			_ = r.Cmd.Wait()
		}
	})
	return r
}

// WaitFor waits until the target has written a text. The test fails if that takes five minutes.
func (r *Running) WaitFor(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(r.Text(), text) {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		if time.Since(r.began) > 5*time.Minute {
			t.Fatalf("%s: %q was not written:\n%s", r.args, text, r.Text())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Text returns what it has written so far.
func (r *Running) Text() string { return r.stdout.String() + r.stderr.String() }

// Wait waits until it ends.
func (r *Running) Wait(t *testing.T) Result {
	t.Helper()
	err := r.Cmd.Wait()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	result := Result{Code: r.Cmd.ProcessState.ExitCode(), Stdout: r.stdout.String(), Stderr: r.stderr.String(), Took: time.Since(r.began)}
	t.Logf("mage %s: exit code %d after %s\n%s", r.args, result.Code, result.Took.Round(100*time.Millisecond), result.Text())
	return result
}

// environ returns the environment of the test without its user's own settings.
func (l *Laptop) environ() []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if name != "HOME" && name != "SSH_AUTH_SOCK" && !strings.HasPrefix(name, "URIFILTER_") && !strings.HasPrefix(name, "MAGEFILE_") {
			env = append(env, e)
		}
	}
	return slices.Concat(env, goEnviron(), []string{"HOME=" + l.Home}, l.Environ)
}

// goEnviron keeps this user's Go caches in use with another home.
var goEnviron = sync.OnceValue(func() []string {
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return nil
	}
	var env []string
	for i, value := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		env = append(env, names[i]+"="+value)
	}
	return env
})

// Sh runs shell text on a host as root, without the toolkit, and returns what it wrote,
// without the trailing line end.
func (l *Laptop) Sh(t *testing.T, host, script string) string {
	t.Helper()
	out, err := l.Hosts[host].Exec(t.Context(), script)
	if err != nil {
		t.Fatalf("%s: %v\n%s", host, err, out)
	}
	return strings.TrimRight(out, "\n")
}
