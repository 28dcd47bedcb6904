package chores

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Test runs gofmt, go vet, all tests, and the short tests again under the race
// detector where goroutines share memory.
func (r Repo) Test(ctx context.Context) error {
	race, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	steps := []step{
		{"gofmt", r.gofmt},
		{"go vet", r.vet},
		{"tests", func(ctx context.Context) error { return r.goTest(ctx, r.NoSkip, nil, "./...") }},
	}
	if race {
		steps = append(steps, step{"tests under the race detector", func(ctx context.Context) error { return r.raceTests(ctx, racePackages()) }})
	}
	return r.steps(ctx, steps)
}

// racePackages are those that -race is worth its tenfold time for in every run;
// Check takes all.
func racePackages() []string {
	return []string{"./client/...", "./daemon/internal/...", "./magefiles/..."}
}

// raceTests runs tests with -race and -short: what -short leaves out has run without.
func (r Repo) raceTests(ctx context.Context, packages []string) error {
	return r.goTest(ctx, false, []string{"CGO_ENABLED=1"}, append([]string{"-race", "-short"}, packages...)...)
}

// goTest runs go test with a report on it.
func (r Repo) goTest(ctx context.Context, noSkip bool, env []string, args ...string) error {
	cmd := r.command(ctx, env, "go", append([]string{"test", "-json", "-timeout=10m"}, args...)...)
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	rep := newReport(r.Out)
	read := make(chan error, 1)
	go func() { read <- rep.read(reader) }()
	runErr := cmd.Run()
	writer.Close()
	if err := <-read; err != nil {
		return fmt.Errorf("go test: output: %w", err)
	}
	fmt.Fprintln(r.Out, rep.sum())
	if err := rep.verdict(noSkip); err != nil {
		return err
	}
	if runErr != nil {
		return errors.Join(errors.New("go test: no test failed, but the command did"), runErr)
	}
	return nil
}
