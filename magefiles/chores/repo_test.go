package chores

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestStepsAreAllDone(t *testing.T) {
	var out strings.Builder
	var done []string
	note := func(name string, err error) step {
		return step{name: name, do: func(Repo, context.Context) error { done = append(done, name); return err }}
	}
	broken := errors.New("broken")
	err := Repo{Out: &out}.steps(t.Context(), []step{note("a", nil), note("b", broken), note("c", nil)})
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "b: ") {
		t.Errorf("error: %v", err)
	}
	if got := strings.Join(done, " "); got != "a b c" {
		t.Errorf("done: %s", got)
	}
	if !strings.Contains(out.String(), "-- b: FAILED") || strings.Contains(out.String(), "-- a") {
		t.Errorf("said:\n%s", &out)
	}
}

// The output of steps that run beside another one is printed in one piece, and their errors
// count.
func TestStepsBesideAnother(t *testing.T) {
	var out strings.Builder
	begun, third := make(chan struct{}), make(chan struct{})
	prints := func(name string, err error, wait <-chan struct{}) step {
		return step{name: name, do: func(r Repo, _ context.Context) error {
			if wait != nil {
				<-wait
			}
			fmt.Fprintln(r.Out, name, "prints")
			fmt.Fprintln(r.Out, name, "ends")
			return err
		}}
	}
	long := step{name: "long", do: func(r Repo, _ context.Context) error {
		close(begun)
		fmt.Fprintln(r.Out, "long prints")
		return nil
	}}
	broken := errors.New("broken")
	long.beside = [][]step{
		{prints("a", broken, begun), prints("b", nil, third)},
		{{name: "c", do: func(Repo, context.Context) error { close(third); return nil }}},
	}
	err := Repo{Out: &out}.steps(t.Context(), []step{long, prints("last", nil, nil)})
	if !errors.Is(err, broken) || err.Error() != "a: broken" {
		t.Errorf("error: %v", err)
	}
	for _, want := range []string{
		"== a\na prints\na ends\n-- a: FAILED\n", "== b\nb prints\nb ends\n", "== long\n", "long prints\n", "== last\nlast prints\nlast ends\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in:\n%s", want, &out)
		}
	}
	if !strings.HasSuffix(out.String(), "== last\nlast prints\nlast ends\n") {
		t.Errorf("the last step did not wait:\n%s", &out)
	}
}

func TestStepsEndWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var second bool
	err := Repo{Out: &strings.Builder{}}.steps(ctx, []step{
		{name: "first", do: func(Repo, context.Context) error { cancel(); return nil }},
		{name: "second", do: func(Repo, context.Context) error { second = true; return nil }},
	})
	if !errors.Is(err, context.Canceled) || second {
		t.Errorf("error %v, second done: %v", err, second)
	}
}

func TestGofmt(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	r := Repo{Dir: dir, Out: &out}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.gofmt(t.Context()); err != nil {
		t.Errorf("empty tree: %v", err)
	}
	write("a/good.go", "package a\n")
	write(".hidden/bad.go", "package  a\n")
	write("dist/bad.go", "package  a\n")
	if err := r.gofmt(t.Context()); err != nil {
		t.Errorf("formatted tree: %v", err)
	}
	write("a/b/bad.go", "package  b\n")
	if err := r.gofmt(t.Context()); err == nil || !strings.Contains(err.Error(), filepath.Join("a", "b", "bad.go")) {
		t.Errorf("got %v, want the file that is not formatted", err)
	}
}

func TestBuildVCS(t *testing.T) {
	dir := t.TempDir()
	r := Repo{Dir: dir, Out: &strings.Builder{}}
	if got := r.buildVCS(t.Context()); got != "false" {
		t.Errorf("no .git: %s", got)
	}
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := r.buildVCS(t.Context()); got != "false" {
		t.Errorf("a .git that git refuses: %s", got)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return // without git it is false, as above
	}
	if out, err := exec.Command(git, "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	if got := r.buildVCS(t.Context()); got != "true" {
		t.Errorf("a repository: %s", got)
	}
}

func TestProvide(t *testing.T) {
	there := need{"there", []string{"go", "version"}, "x", false}
	gone := need{"gone", []string{"go", "no-such-command"}, "y", false}
	unknown := need{"unknown", []string{"no-such-program-here"}, "z", false}
	r := Repo{Dir: t.TempDir(), Out: &strings.Builder{}}
	for _, on := range []host{{}, {debian: true}, {root: true}} {
		missing, err := r.provide(t.Context(), []need{there, gone, unknown}, on)
		if err != nil || len(missing) != 2 || missing[0].packages != "gone" || missing[1].packages != "unknown" {
			t.Errorf("on %+v: missing %v, %v", on, missing, err)
		}
	}
}

// TestProvideInstalls replaces apt-get by a script that records its arguments.
func TestProvideInstalls(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho \"$DEBIAN_FRONTEND $*\" >>\"$0.log\"\n"
	if err := os.WriteFile(filepath.Join(bin, "apt-get"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	r := Repo{Dir: t.TempDir(), Out: &strings.Builder{}}
	all := []need{{"a b", []string{"no-such-program-here"}, "x", true}, {"there", []string{"go", "version"}, "y", false}, {"c", []string{"no-such-program-here"}, "z", false}}
	missing, err := r.provide(t.Context(), all, host{debian: true, root: true})
	if err != nil || missing != nil {
		t.Fatalf("missing %v, %v", missing, err)
	}
	got, err := os.ReadFile(filepath.Join(bin, "apt-get.log"))
	if err != nil {
		t.Fatal(err)
	}
	want := "noninteractive update -q\nnoninteractive install -y --no-install-recommends a b c\n"
	if string(got) != want {
		t.Errorf("apt-get was called with:\n%swant:\n%s", got, want)
	}
}

func TestWithout(t *testing.T) {
	missing := []need{{"gcc", nil, "the race detector", true}}
	var out strings.Builder
	if err := (Repo{Out: &out}).without(missing); err != nil || !strings.Contains(out.String(), "apt-get install gcc") {
		t.Errorf("allowed: %v, said %q", err, &out)
	}
	if err := (Repo{Out: &out, NoSkip: true}).without(missing); err == nil || !strings.Contains(err.Error(), "the race detector") {
		t.Errorf("forbidden: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	if !unreachable("govulncheck: fetching vulnerabilities: Get \"https://x\": dial tcp: no such host\n") {
		t.Error("a failed download is not known as one")
	}
	if unreachable("Vulnerability #1: net.Dial\n  #1: x.go:5: calls fetching vulnerabilities\nYour code is affected by 1.\n") {
		t.Error("a finding is taken for a failed download")
	}
}
