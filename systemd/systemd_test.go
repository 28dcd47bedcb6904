package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// filter is the program of most tests.
var filter = Urifilter()

func mustRender(t *testing.T, p Params) map[string]string {
	t.Helper()
	files, err := Render(Urifilter(), p)
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, f := range files {
		if f.Mode != 0o644 {
			t.Errorf("%s: mode %#o, want 0644", f.Name, f.Mode)
		}
		text[f.Name] = string(f.Content)
	}
	return text
}

// has reports whether a unit has the line.
func has(unit, line string) bool { return slices.Contains(strings.Split(unit, "\n"), line) }

func TestRenderDefaults(t *testing.T) {
	t.Parallel()
	units := mustRender(t, Params{})
	for name, lines := range map[string][]string{
		filter.Service(): {
			"Type=notify", "Requires=urifilter.socket", "OnFailure=urifilter-retry.timer", "User=urifilter", "Group=urifilter",
			"ExecStart=/opt/urifilter/current/urifilter serve --config /etc/urifilter/urifilter.yaml",
			"EnvironmentFile=-/etc/urifilter/urifilter.env", "StateDirectory=urifilter", "ConfigurationDirectory=urifilter", "WatchdogSec=30s",
		},
		filter.Socket(): {"ListenStream=127.0.0.1:8000", "Service=urifilter.service", "BindIPv6Only=both", "FlushPending=no"},
		filter.Retry():  {"Unit=urifilter.service", "PartOf=urifilter.service"},
		filter.JobService(): {"Type=oneshot", `ExecStart=/bin/sh -c '[ ! -r /etc/urifilter/operator.token ] || export URIFILTER_TOKEN_FILE=/etc/urifilter/operator.token; ` +
			`exec /opt/urifilter/current/urifilter bitmap update --config /etc/urifilter/urifilter.yaml'`, "User=urifilter"},
		filter.JobTimer(): {"OnCalendar=*-*-01 00:00:00", "Persistent=true", "Unit=urifilter-writeback.service"},
	} {
		for _, line := range lines {
			if !has(units[name], line) {
				t.Errorf("%s lacks the line %s", name, line)
			}
		}
		delete(units, name)
	}
	if len(units) > 0 {
		t.Errorf("units that the test does not know: %v", units)
	}
}

// A program that runs other people's code may confine its children, and no other program may.
func TestJails(t *testing.T) {
	t.Parallel()
	for _, p := range []Program{Urifilter(), Uridownloader()} {
		files, err := Render(p, Params{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(files, func(f File) bool { return f.Name == p.Service() })
		unit := string(files[i].Content)
		if got := has(unit, "SystemCallFilter=landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp"); got != p.Jails {
			t.Errorf("%s: the system calls of jails: %v", p.Name, got)
		}
		if !has(unit, "SystemCallFilter=~@privileged @resources") || !has(unit, "NoNewPrivileges=yes") {
			t.Errorf("%s: the sandbox is gone:\n%s", p.Name, unit)
		}
	}
}

// A program may have several commands that are daemons; a machine runs one of them.
func TestRun(t *testing.T) {
	t.Parallel()
	p := Program{Name: "x", Does: "y", Documentation: "z", Daemons: []string{"serve", "master --dispatch"}}
	for run, want := range map[string]string{"": "serve", "serve": "serve", "master --dispatch": "master --dispatch"} {
		files, err := Render(p, Params{Run: run})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(files, func(f File) bool { return f.Name == p.Service() })
		if line := "ExecStart=/opt/x/current/x " + want + " --config /etc/x/x.yaml"; !has(string(files[i].Content), line) {
			t.Errorf("%q: no line %s", run, line)
		}
	}
	if _, err := Render(p, Params{Run: "master"}); err == nil || !strings.Contains(err.Error(), `run "master": want serve or master --dispatch`) {
		t.Errorf("another command: %v", err)
	}
	p.Daemons = []string{"serve; rm"}
	if _, err := Render(p, Params{}); err == nil || !strings.Contains(err.Error(), `daemon "serve; rm"`) {
		t.Errorf("a shell's words: %v", err)
	}
}

func TestRenderGiven(t *testing.T) {
	t.Parallel()
	units := mustRender(t, Params{
		Binary: "/srv/app/urifilter", Config: "/srv/app/u.yaml", EnvFile: "/srv/app/env", DataDir: "/data/u", User: "crawl", Group: "web",
		Listen: []string{"0.0.0.0:80", "[::1]:8000", ":9000", "localhost:7", "[fe80::1%eth0]:8000"},
	})
	for _, line := range []string{
		"ExecStart=/srv/app/urifilter serve --config /srv/app/u.yaml", "EnvironmentFile=-/srv/app/env", "ReadWritePaths=/data/u", "User=crawl", "Group=web",
	} {
		if !has(units[filter.Service()], line) {
			t.Errorf("service lacks the line %s", line)
		}
	}
	if strings.Contains(units[filter.Service()], "\nStateDirectory=") || strings.Contains(units[filter.Service()], "\nConfigurationDirectory=") {
		t.Error("the service has folders of systemd, which are not those asked for")
	}
	for _, line := range []string{
		"ListenStream=0.0.0.0:80", "ListenStream=[::1]:8000", "ListenStream=9000", "ListenStream=127.0.0.1:7", "ListenStream=[fe80::1]:8000%eth0",
	} {
		if !has(units[filter.Socket()], line) {
			t.Errorf("socket lacks the line %s", line)
		}
	}
}

// A value that cannot appear in a unit is refused, and never rendered.
func TestRefused(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"relative", "/a b", "/a\nUser=root", "/a\r", "/{{.User}}", "/a%n", "/$HOME", "/a\\x", "/a'", "/a\"", "/a;b", "/a/../b", "/a//b", "/a/", "/", "/é", "/a\x00", "/a#", "/./a",
	}
	for _, value := range hostile {
		for field, p := range map[string]Params{
			"binary": {Binary: value}, "config": {Config: value}, "env file": {EnvFile: value}, "token file": {TokenFile: value}, "data_dir": {DataDir: value},
		} {
			if files, err := Render(Urifilter(), p); err == nil || files != nil || !strings.Contains(err.Error(), field+" ") {
				t.Errorf("%s %q: %v", field, value, err)
			}
		}
	}
	for _, value := range []string{"root", "Big", "a b", "a\nb", "0", "%u", "{{x}}", "-a", strings.Repeat("a", 32)} {
		for field, p := range map[string]Params{"user": {User: value, Group: "g"}, "group": {Group: value}} {
			if _, err := Render(Urifilter(), p); err == nil || !strings.HasPrefix(err.Error(), field+" ") {
				t.Errorf("%s %q: %v", field, value, err)
			}
		}
	}
	for _, value := range []string{
		"", "8000", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:http", "example.com:80", "::1:80", "[fe80::1%e{{]:80", "1.2.3.4:80\nX=1", "[::1%]:80",
	} {
		if _, err := Render(Urifilter(), Params{Listen: []string{value}}); err == nil || !strings.HasPrefix(err.Error(), "listen ") {
			t.Errorf("listen %q: %v", value, err)
		}
	}
	if _, err := Render(Urifilter(), Params{Listen: []string{":1", ":1"}}); err == nil {
		t.Error("an address that is given twice is taken")
	}
	for _, dir := range []string{"/home/u", "/root", "/tmp/x", "/var/lib", "/proc/1"} {
		if _, err := Render(Urifilter(), Params{DataDir: dir}); err == nil {
			t.Errorf("data_dir %s is taken", dir)
		}
	}
	_, err := Render(Urifilter(), Params{Binary: "x", User: "root", Listen: []string{"y"}})
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("not all faults are told: %v", err)
	}
}

// Each line of a rendered unit is a section, a comment, or a key and its value.
func TestNothingIsLeftOpen(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`^(|#.*|\[[A-Z][a-z]+\]|[A-Z][A-Za-z0-9]+=.*)$`)
	for _, p := range []Params{{}, {DataDir: "/data", Config: "/a.yaml", Listen: []string{":1", ":2"}}} {
		for name, text := range mustRender(t, p) {
			if !strings.HasSuffix(text, "\n") || strings.Contains(text, "{{") || strings.Contains(text, "<no value>") {
				t.Errorf("%s is not whole:\n%s", name, text)
			}
			for _, l := range strings.Split(text, "\n") {
				if !line.MatchString(l) {
					t.Errorf("%s: line %q", name, l)
				}
			}
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add("/opt/x", "/etc/u/c.yaml", "/var/lib/u", "u", "127.0.0.1:80")
	f.Add("/{{.User}}", "/a\nb", "/%h", "r{{", "[::1%25eth0]:1")
	f.Fuzz(func(t *testing.T, binary, config, data, user, listen string) {
		files, err := Render(Urifilter(), Params{Binary: binary, Config: config, DataDir: data, User: user, Listen: []string{listen}})
		if err != nil {
			return
		}
		lines := map[string]int{}
		for _, file := range files {
			lines[file.Name] = strings.Count(string(file.Content), "\n")
			if strings.ContainsAny(string(file.Content), "{}\r\x00\\") {
				t.Errorf("%s:\n%s", file.Name, file.Content)
			}
		}
		plain, err := Render(Urifilter(), Params{Binary: "/b", Config: "/etc/c/d", DataDir: "/var/lib/d", User: "u", Listen: []string{":1"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range plain {
			if n := strings.Count(string(file.Content), "\n"); lines[file.Name] > n+1 {
				t.Errorf("%s has %d lines, want about %d", file.Name, lines[file.Name], n)
			}
		}
	})
}

// systemd itself reads the units, and judges the sandbox.
func TestSystemdAccepts(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "urifilter")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for name, text := range mustRender(t, Params{Binary: program, Listen: []string{":8000", "[::1]:1"}}) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	if out, err := exec.Command(tool, append([]string{"verify"}, paths...)...).CombinedOutput(); err != nil || strings.Contains(string(out), dir) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	for _, name := range []string{filter.Service(), filter.JobService()} {
		out, err := exec.Command(tool, "security", "--no-pager", "--offline=yes", "--threshold=19", filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: want an exposure below 2.0: %v\n%s", name, err, out)
		}
	}
}

// The units of another program use its name throughout, and a program without a job has no units
// for one.
func TestRenderAnotherProgram(t *testing.T) {
	t.Parallel()
	p := Program{Name: "other", Does: "does something else", Documentation: "https://example.com/other"}
	files, err := Render(p, Params{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
		if strings.Contains(string(f.Content), filter.Name) {
			t.Errorf("%s names %s:\n%s", f.Name, filter.Name, f.Content)
		}
	}
	if want := []string{"other-retry.timer", "other.service", "other.socket"}; !slices.Equal(names, want) {
		t.Errorf("units %q, want %q", names, want)
	}
	if service := string(files[1].Content); !has(service, "ExecStart=/opt/other/current/other serve --config /etc/other/other.yaml") || !has(service, "User=other") || !has(service, "StateDirectory=other") {
		t.Errorf("the service:\n%s", service)
	}
	for _, bad := range []Program{
		{}, {Name: "a b", Does: p.Does, Documentation: p.Documentation}, {Name: "a", Does: "x\nUser=root", Documentation: p.Documentation},
		{Name: "a", Does: p.Does, Documentation: "{{.User}}"}, {Name: "a", Does: p.Does, Documentation: p.Documentation, Job: &Job{Name: "x", Does: "x", Args: []string{"$(id)"}}},
	} {
		if files, err := Render(bad, Params{}); err == nil || files != nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
