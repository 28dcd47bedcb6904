package chores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// Test runs gofmt, go vet, all tests of both languages, and the short tests again under
// the race detector where goroutines share memory.
func (r Repo) Test(ctx context.Context) error {
	race, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	steps := []step{
		{"gofmt", r.gofmt},
		{"go vet", r.vet},
		{"tests", func(ctx context.Context) error { return r.goTest(ctx, r.NoSkip, nil, "./...") }},
		{"tests of the other modules", r.testModules},
		{"tests of the Python client and of Scrapy", r.PythonTest},
	}
	if race {
		steps = append(steps, step{"tests under the race detector", func(ctx context.Context) error { return r.raceTests(ctx, racePackages()) }})
	}
	return r.steps(ctx, steps)
}

// racePackages are those that -race is worth its tenfold time for in every run;
// Check takes all.
func racePackages() []string {
	return []string{"./client/...", "./daemon/internal/...", "./magefiles/...", "./provision/fleet", "./provision/report"}
}

// raceTests runs tests with -race and -short: what -short leaves out has run without.
func (r Repo) raceTests(ctx context.Context, packages []string) error {
	return r.goTest(ctx, false, []string{"CGO_ENABLED=1"}, append([]string{"-race", "-short"}, packages...)...)
}

// goTest runs go test with a report on it.
func (r Repo) goTest(ctx context.Context, noSkip bool, env []string, args ...string) error {
	return r.report("go test", noSkip, r.command(ctx, env, "go", append([]string{"test", "-json", "-timeout=60m"}, args...)...))
}

// report runs commands that print events as go test -json does, one after the other,
// and reports on all of their tests.
func (r Repo) report(what string, noSkip bool, commands ...*exec.Cmd) error {
	rep := newReport(r.Out)
	var broken error
	for _, cmd := range commands {
		reader, writer := io.Pipe()
		cmd.Stdout = writer
		read := make(chan error, 1)
		go func() { read <- rep.read(reader) }()
		if err := cmd.Run(); err != nil && broken == nil {
			broken = err
		}
		writer.Close()
		if err := <-read; err != nil {
			return fmt.Errorf("%s: output: %w", what, err)
		}
	}
	fmt.Fprintln(r.Out, rep.sum())
	if err := rep.verdict(noSkip); err != nil {
		return err
	}
	if broken != nil {
		return errors.Join(fmt.Errorf("%s: no test failed, but the command did", what), broken)
	}
	return nil
}
