package fleet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// far is a host whose answers say how often something was changed on it. together, if it is not 0, is how many
// questions must wait for an answer before the first gets one.
type far struct {
	host.Host
	together int

	mu       sync.Mutex
	asked    []string
	changes  int
	waiting  int
	answered chan struct{}
}

func (f *far) Run(ctx context.Context, c host.Command) (host.Output, error) {
	f.mu.Lock()
	f.asked = append(f.asked, c.Script)
	if !c.Look && !c.Watch {
		f.changes++
	}
	if f.waiting++; f.waiting == f.together {
		close(f.answered)
	}
	wait := f.together != 0
	f.mu.Unlock()
	if wait {
		select {
		case <-f.answered:
		case <-ctx.Done():
			return host.Output{}, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return host.Output{Stdout: fmt.Sprint(f.changes)}, nil
}

func (f *far) job(steps ...step.Step) Job {
	j := job("far", steps...)
	j.Connect = func(context.Context) (host.Host, io.Closer, error) { return f, io.NopCloser(nil), nil }
	return j
}

// heard collects answers.
type heard struct {
	mu      sync.Mutex
	answers []string
}

// asks is a wish that asks the host one thing, and is content with any answer.
func asks(c host.Command, to *heard) step.Wish {
	return step.NewWish(c.Script, func(ctx context.Context, h host.Host) (*step.Change, error) {
		out, err := h.Run(ctx, c)
		if to != nil {
			to.mu.Lock()
			defer to.mu.Unlock()
			to.answers = append(to.answers, out.Stdout)
		}
		return nil, err
	})
}

// Steps that may look early ask at the same time, up to the first that may not, and once. What is reported is
// what would have been without that, in the same order.
func TestEarlySteps(t *testing.T) {
	t.Parallel()
	const many = 20
	tell := func(mark func(...step.Step) []step.Step, together int) []string {
		f := &far{together: together, answered: make(chan struct{})}
		var steps, all []step.Step
		for n := range many {
			steps = append(steps, asks(host.Command{Script: fmt.Sprint("ask ", n), Look: n%2 == 0, Watch: n%2 == 1}, nil))
		}
		all = append(mark(steps...), step.NewProof("proof", func(ctx context.Context, h host.Host) error {
			if len(f.asked) != many {
				t.Errorf("%d questions before a proof, want %d", len(f.asked), many)
			}
			return nil
		}))
		all = append(all, mark(asks(host.Command{Script: "last", Look: true}, nil))...)
		s := &scene{}
		if _, err := Run(t.Context(), []Phase{{Name: "one", Jobs: []Job{f.job(all...)}}}, s.options()); err != nil {
			t.Fatal(err)
		}
		if len(f.asked) != many+1 {
			t.Errorf("%d questions, want %d", len(f.asked), many+1)
		}
		var told []string
		for _, e := range s.events {
			told = append(told, fmt.Sprint(e.Kind, e.Phase, e.Host, e.Step, e.Status, e.Command, e.Text))
		}
		return told[1 : len(told)-1] // without the run's own, which tell its id
	}
	late := func(steps ...step.Step) []step.Step { return steps }
	if early, turns := tell(step.Early, many), tell(late, 0); !slices.Equal(early, turns) {
		t.Errorf("reported\n%q\nwant\n%q", early, turns)
	}
}

// An answer from before a change is not used after it, whether it is to a look or to a watch; nor is that to a
// watch used twice, or for another group of steps.
func TestEarlyAnswersEnd(t *testing.T) {
	t.Parallel()
	look, watch := host.Command{Script: "look", Look: true}, host.Command{Script: "watch", Watch: true}
	changed := false
	change := step.NewWish("change", func(ctx context.Context, h host.Host) (*step.Change, error) {
		if changed {
			return nil, nil
		}
		return &step.Change{Summary: "change", Apply: func(ctx context.Context) error {
			changed = true
			_, err := h.Run(ctx, host.Command{Script: "change"})
			return err
		}}, nil
	})
	f := &far{}
	var before, after heard
	counts := step.NewProof("counts", func(context.Context, host.Host) error { f.changes++; return nil }) // by itself
	steps := step.Early(asks(look, &before), asks(watch, &before), change, asks(look, &after), asks(watch, &after))
	steps = append(steps, step.Early(asks(watch, &after), asks(look, &after))...)
	steps = append(append(steps, counts), step.Early(asks(watch, &after), asks(look, &after))...)
	s := &scene{}
	if _, err := Run(t.Context(), []Phase{{Name: "one", Jobs: []Job{f.job(steps...)}}}, s.options()); err != nil {
		t.Fatal(err)
	}
	// The early looks add to what is heard, in any order: what counts is the turns.
	turns := after.answers[len(after.answers)-10:]
	if slices.Contains(turns, "0") || !slices.Contains(turns[6:], "2") || !slices.Contains(before.answers, "0") {
		t.Errorf("heard %q, and after a change %q", before.answers, after.answers)
	}
	w := watched{f, func(report.Event) {}, &memo{}, true}
	if _, err := w.Run(t.Context(), watch); err != nil {
		t.Fatal(err)
	}
	w.ahead = false
	n := len(f.asked)
	for range 2 {
		_, _ = w.Run(t.Context(), watch)
	}
	if len(f.asked) != n+1 {
		t.Errorf("a watch that was answered early was asked for %d more times, want 1", len(f.asked)-n)
	}
}

// A look before the turn of its step can change nothing, and a step that notes what it finds does not; what is wrong
// is told in the turn, and once.
func TestEarlyLooksChangeNothing(t *testing.T) {
	t.Parallel()
	f := &far{}
	turns := 0
	steps := step.Early(
		asks(host.Command{Script: "changes"}, nil),
		step.NewWish("uploads", func(ctx context.Context, h host.Host) (*step.Change, error) {
			if err := h.Upload(ctx, host.Upload{Path: "/x"}); err != nil {
				return nil, nil
			}
			return nil, errBroken
		}),
		noting{asks(host.Command{Script: "noted", Look: true}, nil), &turns},
		step.NewWish("panics", func(context.Context, host.Host) (*step.Change, error) { panic("oh") }),
	)
	s := &scene{}
	sum, err := Run(t.Context(), []Phase{{Name: "one", Jobs: []Job{f.job(steps...)}}}, s.options())
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "far failed")
	if want := []string{"noted", "changes", "noted"}; !slices.Equal(f.asked, want) || turns != 1 {
		t.Errorf("asked %q, want %q; %d notes", f.asked, want, turns)
	}
}

type noting struct {
	step.Wish
	turns *int
}

func (n noting) Quiet() step.Wish { return n.Wish }

func (n noting) Look(ctx context.Context, h host.Host) (*step.Change, error) {
	*n.turns++
	return n.Wish.Look(ctx, h)
}

func (f *far) Upload(context.Context, host.Upload) error { return errBroken }
