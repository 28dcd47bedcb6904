// Package chores does the daily work on this repository: build, run, test, check,
// bench. It starts the Go tools and reports on them; it knows no server but the one
// that Run starts, and deploys nothing.
package chores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Repo is a working tree of the repository.
type Repo struct {
	Dir string
	// Out receives what the commands print, and what is reported about them.
	Out io.Writer
	// NoSkip makes a skipped test a failure.
	NoSkip bool

	env   []string // added to the environment of all commands
	total *total   // counts the tests of a target; nil: not counted
}

// leftoverWait is how long the output of a command that has ended may stay open. A daemon that
// a test has left behind keeps it open for ever; after this time that is an error.
const leftoverWait = 30 * time.Second

// command returns a command that runs in the tree and writes to r.Out; env is added
// to the environment of this process.
func (r Repo) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Dir, r.Out, r.Out
	cmd.Env = slices.Concat(os.Environ(), r.env, env)
	cmd.WaitDelay = leftoverWait
	return cmd
}

// run runs a command to its end. The error names it.
func (r Repo) run(ctx context.Context, env []string, name string, args ...string) error {
	if err := r.command(ctx, env, name, args...).Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// Bench runs the benchmark program.
func (r Repo) Bench(ctx context.Context, args []string) error {
	return r.run(ctx, nil, "go", append([]string{"run", "./daemon/bench"}, args...)...)
}

// step is one of several things that are all done, even if others fail.
type step struct {
	name   string
	do     func(Repo, context.Context) error
	beside [][]step // lists of steps that run meanwhile, all at once; the steps of a list run one after the other
}

// steps does all steps and returns the errors of those that failed.
func (r Repo) steps(ctx context.Context, all []step) error {
	return r.stepsThen(ctx, all, func() {})
}

// stepsThen calls then after each step.
func (r Repo) stepsThen(ctx context.Context, all []step, then func()) error {
	var failed []error
	for _, s := range all {
		own, wait := r.begin(ctx, s.beside)
		fmt.Fprintf(own.Out, "== %s\n", s.name)
		if err := s.do(own, ctx); err != nil {
			fmt.Fprintf(own.Out, "-- %s: FAILED\n", s.name)
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		}
		failed = append(failed, wait())
		then()
		if err := ctx.Err(); err != nil {
			return errors.Join(append(failed, err)...)
		}
	}
	return errors.Join(failed...)
}
