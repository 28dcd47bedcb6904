// Package hosttest gives the tests of steps a real host: a fresh Debian of package sandbox, with an
// operator's access. It is only for tests.
package hosttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/remote"
	"github.com/cr-clawer/urifilter/provision/remote/login"
	"github.com/cr-clawer/urifilter/provision/sandbox"
	"github.com/cr-clawer/urifilter/provision/sandbox/sandboxtest"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Host is a host for one test.
type Host struct {
	host.Host
	Sandbox *sandbox.Host
	Gateway string // this machine's address, as the host sees it

	all *sandbox.Sandbox
}

// Unwrap implements the interface of [host.As].
func (h *Host) Unwrap() host.Host { return h.Host }

// New boots a host with that release of Debian, and ends it with the test. It skips the test where
// sandboxes are unavailable.
func New(t *testing.T, release string) *Host { return All(t, release)[0] }

// All is New for several hosts on one network.
func All(t *testing.T, releases ...string) []*Host {
	t.Helper()
	all, _ := up(t, false, releases)
	return all
}

// WithRepository is All for hosts with a package repository that contains a server for the archive.
func WithRepository(t *testing.T, releases ...string) ([]*Host, *sandbox.Repository) {
	t.Helper()
	return up(t, true, releases)
}

func up(t *testing.T, repository bool, releases []string) ([]*Host, *sandbox.Repository) {
	t.Helper()
	var specs []sandbox.Spec
	for i, release := range releases {
		specs = append(specs, sandbox.Spec{Name: fmt.Sprintf("host%d", i+1), Release: release})
	}
	s := sandboxtest.Up(t, sandbox.Options{Hosts: specs, Repository: repository})
	var all []*Host
	for _, h := range s.Hosts {
		all = append(all, &Host{Host: dial(t, s, h), Sandbox: h, Gateway: s.Gateway, all: s})
	}
	return all, s.Repository
}

// Sh runs shell text as root and returns its output without trailing newlines.
func (h *Host) Sh(t *testing.T, script string) string {
	t.Helper()
	out, err := h.Run(t.Context(), host.Command{Script: script, Root: true})
	if err != nil {
		if bad, is := errors.AsType[*host.CommandError](err); is {
			t.Fatalf("%s\n%s%s", err, bad.Output.Stdout, bad.Output.Stderr)
		}
		t.Fatal(err)
	}
	return strings.TrimRight(out.Stdout, "\n")
}

// Reconnect returns the host with a new connection, after a reboot.
func (h *Host) Reconnect(t *testing.T) *Host {
	t.Helper()
	again := *h
	again.Host = dial(t, h.all, h.Sandbox)
	return &again
}

// waiting is how long Wait waits: longer than any event in tests, such as the next minute, takes on
// a busy machine.
const waiting = 4 * time.Minute

// Wait runs shell text until it succeeds. If it never does, the test ends with the host's
// journal.
func (h *Host) Wait(t *testing.T, script string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		_, err := h.Run(t.Context(), host.Command{Script: script, Root: true})
		if err == nil {
			return
		}
		if t.Context().Err() != nil || time.Since(begun) > waiting {
			t.Fatalf("%v; the journal ends:\n%s", err, h.Sh(t, "journalctl -q --no-pager -n 40"))
		}
	}
}

// Plan checks every step and returns the summaries of pending changes.
func Plan(t *testing.T, h host.Host, steps []step.Step) []string {
	t.Helper()
	var pending []string
	for _, s := range steps {
		if proof, proves := s.(step.Proof); proves {
			if len(pending) == 0 {
				if err := proof.Prove(Voiced(t), h); err != nil {
					t.Fatalf("%s: %v", s.Title(), err)
				}
			}
			continue
		}
		c, err := s.(step.Wish).Look(Voiced(t), h)
		if err != nil {
			t.Fatalf("plan: %s: %v", s.Title(), err)
		}
		if c != nil {
			pending = append(pending, s.Title()+": "+c.Summary)
		}
	}
	return pending
}

// Apply applies every step as a deployment does, and returns the changes made. The error is of the
// first step that fails.
func Apply(t *testing.T, h host.Host, steps []step.Step) (changed []string, err error) {
	t.Helper()
	for _, s := range steps {
		if proof, proves := s.(step.Proof); proves {
			if err := proof.Prove(Voiced(t), h); err != nil {
				return changed, fmt.Errorf("%s: %w", s.Title(), err)
			}
			continue
		}
		wish := s.(step.Wish)
		c, err := wish.Look(Voiced(t), h)
		if err != nil {
			return changed, fmt.Errorf("%s: %w", s.Title(), err)
		}
		if c == nil {
			continue
		}
		t.Logf("%s: %s\n%s", s.Title(), c.Summary, c.Diff)
		if err := c.Apply(Voiced(t)); err != nil {
			return changed, fmt.Errorf("%s: %w", s.Title(), err)
		}
		changed = append(changed, s.Title()+": "+c.Summary)
		if c.Act {
			continue
		}
		if c, err = wish.Look(Voiced(t), h); err != nil || c != nil {
			return changed, fmt.Errorf("%s: still differs after apply: %+v, %v", s.Title(), c, err)
		}
	}
	return changed, nil
}

// Must is Apply if no step may fail; a second run must then change nothing.
func Must(t *testing.T, h host.Host, steps []step.Step) (changed []string) {
	t.Helper()
	changed, err := Apply(t, h, steps)
	if err != nil {
		t.Fatal(err)
	}
	if pending := Plan(t, h, steps); len(pending) > 0 {
		t.Fatalf("a plan after the steps: %q", pending)
	}
	return changed
}

// Voiced returns the test's context, which puts the messages of steps in the test's log.
func Voiced(t *testing.T) context.Context {
	return step.WithVoice(t.Context(), func(text string, warning bool) { t.Logf("said (warning %v): %s", warning, text) })
}

// dial logs in: on Debian 12 as root, on Debian 13 as the user deploy, which needs a password for
// sudo.
func dial(t *testing.T, s *sandbox.Sandbox, h *sandbox.Host) host.Host {
	t.Helper()
	user := "root"
	if h.Release == "trixie" {
		user = h.User
	}
	dialer := remote.New(login.Options{ConfigFile: "none", Home: t.TempDir(), Getenv: func(name string) string {
		if name == login.SudoPasswordEnv {
			return h.Password
		}
		return ""
	}})
	t.Cleanup(func() { dialer.Close() })
	conn, err := dialer.Dial(t.Context(), inventory.Host{Name: h.Name, Address: h.Address, Login: inventory.Login{
		User: user, Port: h.Port, IdentityFile: s.KeyFile, KnownHosts: s.KnownHosts,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
