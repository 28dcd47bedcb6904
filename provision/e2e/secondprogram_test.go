package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs/strict"
	"github.com/cr-clawer/urifilter/provision"
	"github.com/cr-clawer/urifilter/provision/e2e/programs"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/program/urifilter"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/sandbox"
	"github.com/cr-clawer/urifilter/provision/sandbox/sandboxtest"
	"github.com/cr-clawer/urifilter/systemd"
)

// greeter returns a program that the toolkit does not know.
func greeter() program.Program {
	return program.Program{
		Program: systemd.Program{
			Name: "greeter", Does: "says hello", Documentation: "https://example.com/greeter",
			Job: &systemd.Job{Name: "cleanup", Does: "forget whom it has greeted", Args: []string{"forget"}},
		},
		Roles: []string{"greet", "wave"}, Package: "./daemon/testdata/greeter", Ready: "/up",
		Parse: func(name string, text []byte) (program.Settings, error) {
			s := struct {
				Listen  string `yaml:"listen"`
				DataDir string `yaml:"data_dir"`
				Hello   string `yaml:"hello"`
			}{"127.0.0.1:8700", "/var/lib/greeter", "hello"}
			err := strict.Decode(name, text, &s)
			return program.Settings{
				Validate: func() error { return nil }, Listen: s.Listen, URL: "http://" + s.Listen, DataDir: s.DataDir,
				Ask: func(ctx context.Context, d program.Daemon) error {
					a, err := d.Call(ctx, "GET", "/hello/toolkit", "")
					if want := s.Hello + " toolkit"; err == nil && a.Body != want {
						err = fmt.Errorf("GET /hello/toolkit: %s: want %s", a.Short(), want)
					}
					return err
				},
			}, err
		},
	}
}

// trySecondProgram: the code that deploys the filter deploys another program, in another role,
// without anything of the filter's on the host: user, folders, settings, units, port, start,
// real request, schedule, rollback.
func trySecondProgram(t *testing.T) {
	s := sandboxtest.Up(t, sandbox.Options{Hosts: []sandbox.Spec{{Name: "one", Release: "bookworm"}}})
	dir := t.TempDir()
	inventory := filepath.Join(dir, "hosts.yaml")
	text := fmt.Sprintf("hosts: [{name: one, address: %s, port: %d, user: root, roles: [wave], identity_file: %q, known_hosts: %q}]\nfleet: {bake: 2s}\n",
		s.Hosts[0].Address, s.Hosts[0].Port, s.KeyFile, s.KnownHosts)
	if err := os.WriteFile(inventory, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := func(script string) string {
		t.Helper()
		out, err := s.Hosts[0].Exec(t.Context(), script)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimRight(out, "\n")
	}
	fault := ""
	// do runs a target, and returns what it wrote.
	do := func(o provision.Options, target func(*provision.Toolkit, context.Context) error) (string, error) {
		t.Helper()
		out, err := os.Create(filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		o.Programs, o.Program = []program.Program{urifilter.Program(), greeter()}, "greeter"
		o.Dir, o.Inventory, o.Stdout, o.Stderr = dir, inventory, out, out
		o.Getenv = func(name string) string { return map[string]string{"URIFILTER_SSH_CONFIG": "none"}[name] }
		o.Build = func(ctx context.Context, p program.Program, _ string) (release.Built, error) {
			if p.Name != "greeter" {
				return release.Built{}, fmt.Errorf("%s is to be built, and no host runs it", p.Name)
			}
			path, err := programs.Greeter(ctx, t.TempDir(), fault)
			return release.Built{Path: path}, err
		}
		toolkit, err := provision.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(target(toolkit, t.Context()), toolkit.Close())
		text, readErr := os.ReadFile(out.Name())
		if readErr != nil {
			t.Fatal(readErr)
		}
		t.Logf("%v\n%s", err, text)
		return string(text), err
	}
	must := func(o provision.Options, target func(*provision.Toolkit, context.Context) error) string {
		t.Helper()
		text, err := do(o, target)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}

	if _, err := do(provision.Options{ExitCode: true}, (*provision.Toolkit).Plan); fleet.Code(err) != fleet.CodeChanges {
		t.Errorf("plan of a fresh host: %v", err)
	}
	must(provision.Options{}, (*provision.Toolkit).Deploy)
	if got := sh("systemctl is-active greeter.service greeter.socket; ps -o user= -p $(systemctl show -P MainPID greeter); ls /var/lib/greeter; ls -d /opt/*"); got != "active\nactive\ngreeter\ntoolkit\n/opt/greeter" {
		t.Errorf("the host has\n%s", got)
	}
	if got := sh("tail -n 1 /etc/cron.d/greeter"); got != "0 0 1 * * greeter systemd-cat --identifier=greeter-cleanup /opt/greeter/current/greeter forget --config /etc/greeter/greeter.yaml" {
		t.Errorf("the crontab: %s", got)
	}
	if got := sh("find / -xdev -name '*urifilter*' -not -path '/proc/*' -not -name 'urifilter-toolkit*' 2>/dev/null"); got != "" {
		t.Errorf("of the filter there is\n%s", got)
	}
	if text, err := do(provision.Options{ExitCode: true}, (*provision.Toolkit).Plan); err != nil {
		t.Errorf("a plan after the deployment: %v\n%s", err, text)
	}
	if text := must(provision.Options{}, (*provision.Toolkit).Status); !strings.Contains(text, "active") || !strings.Contains(text, "yes") {
		t.Errorf("status:\n%s", text)
	}

	first := sh("readlink /opt/greeter/current")
	fault = "tongue-tied"
	text, err := do(provision.Options{}, (*provision.Toolkit).Deploy)
	if fleet.Code(err) != fleet.CodeFailed || !strings.Contains(text, "GET /up: 500 Internal Server Error: tongue-tied") || !strings.Contains(text, "rolled back: release") {
		t.Errorf("a release that is not ready: %v\n%s", err, text)
	}
	if now := sh("systemctl is-active greeter.service; readlink /opt/greeter/current"); now != "active\n"+first {
		t.Errorf("after the way back: %s, want %s", now, first)
	}
	must(provision.Options{}, (*provision.Toolkit).Stop)
	if got := sh("systemctl is-active greeter.service greeter.socket || :"); got != "inactive\ninactive" {
		t.Errorf("stopped: %s", got)
	}
}
