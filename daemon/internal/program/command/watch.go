package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
)

// Watching is how a command shows what a program is doing: on a terminal one screen, redrawn at
// each poll.
type Watching struct {
	Interval             time.Duration
	Once, JSON, Terminal bool

	away io.Writer // is told of polls without an answer with JSON, which programs read; nil: the output
}

// Flags adds --json, --interval and --once, which are judged before anything is done.
func (w *Watching) Flags(cmd *cobra.Command) {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if w.JSON {
			w.away = cmd.ErrOrStderr()
		}
		if w.Interval < 0 || w.Interval == 0 && !w.Once {
			return UsageError{fmt.Errorf("--interval %s: want more than 0, or 0 with --once", w.Interval)}
		}
		return nil
	}
	JSONFlag(cmd, &w.JSON)
	cmd.Flags().DurationVar(&w.Interval, "interval", 2*time.Second, "`time` between two polls")
	cmd.Flags().BoolVar(&w.Once, "once", false, "print one table and exit")
}

// Watch polls until ctx ends, which is the normal end, or only once. It shows a program that no
// longer answers as such.
func Watch[T any](ctx context.Context, out io.Writer, w Watching, poll func(context.Context) (T, error), write func(T, io.Writer) error) error {
	show := func(value T) error {
		if w.JSON {
			return json.NewEncoder(out).Encode(value)
		}
		if w.Terminal && !w.Once {
			if err := terminal.Clear(out); err != nil {
				return err
			}
		}
		return write(value, out)
	}
	away := out
	if w.away != nil {
		away = w.away
	}
	first, err := poll(ctx)
	if err != nil {
		return err
	}
	if !w.Once || w.Interval == 0 {
		if err := show(first); err != nil || w.Once {
			return err
		}
	}
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if w.Once {
				return context.Cause(ctx)
			}
			return Stopped(ctx)
		case <-tick.C:
		}
		now, err := poll(ctx)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil && w.Once:
			return err
		case err != nil:
			if _, err := fmt.Fprintf(away, "no answer: %v\n", err); err != nil {
				return err
			}
			continue
		}
		if err := show(now); err != nil || w.Once {
			return err
		}
	}
}
