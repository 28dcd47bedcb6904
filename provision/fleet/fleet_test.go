package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

var errBroken = errors.New("disk is full\nhint: make room")

func broken(context.Context) error { return errBroken }

func TestRunChangesWhatDiffers(t *testing.T) {
	t.Parallel()
	s := &scene{state: map[string]bool{"a one": true}}
	phases := []Phase{{Name: "filter", Jobs: []Job{job("a", s.change("a", "one", nil), s.change("a", "two", nil))}}}
	sum, err := Run(t.Context(), phases, s.options())
	wantCode(t, err, CodeDone)
	wantStatuses(t, sum, "a changed")
	s.wantLog(t, "a two")
	if h := sum.Hosts[0]; h.OK != 1 || h.Changed != 1 || h.Failed != 0 {
		t.Errorf("counts: %+v", h)
	}

	sum, err = Run(t.Context(), phases, s.options())
	wantCode(t, err, CodeDone)
	wantStatuses(t, sum, "a ok")
	s.wantLog(t, "a two")
}

func TestStepThatDoesNotHoldFails(t *testing.T) {
	t.Parallel()
	s := &scene{}
	never := step.NewWish("never", func(context.Context, host.Host) (*step.Change, error) {
		return &step.Change{Summary: "make it so", Apply: func(context.Context) error { return nil }}, nil
	})

	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{job("a", never)}}}, s.options())
	wantCode(t, err, CodeFailed)
	if got := sum.Hosts[0].Error; got != "still differs after apply: make it so" {
		t.Errorf("error: %q", got)
	}

	act := step.NewWish("act", func(context.Context, host.Host) (*step.Change, error) {
		return &step.Change{Summary: "do it", Act: true, Apply: func(context.Context) error { return nil }}, nil
	})
	sum, err = Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{job("a", act)}}}, s.options())
	wantCode(t, err, CodeDone)
	wantStatuses(t, sum, "a changed")
}

func TestFailureIsUndoneLastFirst(t *testing.T) {
	t.Parallel()
	s := &scene{state: map[string]bool{"a two": true}}
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{job("a",
		s.change("a", "one", nil), s.change("a", "two", nil), s.change("a", "three", nil),
		s.change("a", "four", broken), s.change("a", "five", nil))}}}, s.options())
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a failed")
	// Step two was as wished before the run, so it is not undone.
	s.wantLog(t, "a one", "a three", "a four", "undo a four", "undo a three", "undo a one")
	if h := sum.Hosts[0]; h.Step != "four" || h.Error != errBroken.Error() {
		t.Errorf("summary: %+v", h)
	}
	last := sum.Results[len(sum.Results)-1]
	if last.Status != report.Undone || last.Detail != "took back one" {
		t.Errorf("last result: %+v", last)
	}
}

func TestCanaryThatFailsKeepsTheRest(t *testing.T) {
	t.Parallel()
	for _, keepGoing := range []bool{false, true} {
		s := &scene{}
		p := Phase{Name: "filter", Rolling: true, Jobs: []Job{job("a", s.change("a", "x", broken))}}
		for _, name := range []string{"b", "c", "d"} {
			p.Jobs = append(p.Jobs, job(name, s.change(name, "x", nil)))
		}
		o := s.options()
		o.Canary, o.Batch, o.KeepGoing = 1, "50%", keepGoing
		sum, err := Run(t.Context(), []Phase{p}, o)
		wantCode(t, err, CodeFailed)
		wantStatuses(t, sum, "a failed", "b not started", "c not started", "d not started")
		s.wantLog(t, "a x", "undo a x")
		if err.Error() != "deploy: of 4 hosts: 1 failed, 3 not started" {
			t.Errorf("error: %v", err)
		}
	}
}

func TestBatchWithAFailureEndsBeforeTheNext(t *testing.T) {
	t.Parallel()
	for keepGoing, want := range map[bool]string{false: "not started", true: "changed"} {
		s := &scene{}
		// b fails only after c has begun: a failure does not disturb its peers.
		begun := make(chan struct{})
		jobs := []Job{
			job("a", s.change("a", "x", nil)),
			job("b", s.change("b", "x", func(context.Context) error { <-begun; return errBroken })),
			job("c", s.change("c", "x", func(ctx context.Context) error { close(begun); return ctx.Err() }), s.change("c", "y", nil)),
			job("d", s.change("d", "x", nil)),
		}
		o := s.options()
		o.Canary, o.Batch, o.KeepGoing = 1, "2", keepGoing
		sum, err := Run(t.Context(), []Phase{{Name: "filter", Rolling: true, Jobs: jobs}}, o)
		wantCode(t, err, CodeFailed)
		wantStatuses(t, sum, "a changed", "b failed", "c changed", "d "+want)
	}
}

func TestAFailedPhaseEndsTheRun(t *testing.T) {
	t.Parallel()
	s := &scene{}
	sum, err := Run(t.Context(), []Phase{
		{Name: "redis", Jobs: []Job{job("r", s.change("r", "x", broken))}},
		{Name: "filter", Jobs: []Job{job("a", s.change("a", "x", nil))}},
	}, s.options())
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "r failed", "a not started")
	for _, r := range sum.Results {
		if r.Host == "a" && r.Status == report.NotStarted && r.Detail != "because of r" {
			t.Errorf("detail: %q", r.Detail)
		}
	}
}

func TestParallelBoundsTheHostsAtWork(t *testing.T) {
	t.Parallel()
	s := &scene{}
	// Two hosts meet in the middle of their steps; a third must not be at work then.
	meet := make(chan struct{})
	var jobs []Job
	for i := range 6 {
		name := fmt.Sprint("h", i)
		jobs = append(jobs, job(name, s.change(name, "x", func(context.Context) error {
			select {
			case meet <- struct{}{}:
			case <-meet:
			}
			return nil
		})))
	}
	o := s.options()
	o.Parallel = 2
	_, err := Run(t.Context(), []Phase{{Name: "p", Jobs: jobs}}, o)
	wantCode(t, err, CodeDone)
	if s.most != 2 {
		t.Errorf("%d hosts at once, want 2", s.most)
	}
}

func TestUnreachableHostIsLeftOut(t *testing.T) {
	t.Parallel()
	s := &scene{}
	p := Phase{Name: "filter", Rolling: true, Jobs: []Job{away("a"), job("b", s.change("b", "x", nil)), job("c", s.change("c", "x", nil))}}
	o := s.options()
	o.Canary = 1
	sum, err := Run(t.Context(), []Phase{p}, o)
	wantCode(t, err, CodeUnreachable)
	wantStatuses(t, sum, "a unreachable", "b changed", "c changed")
	s.wantLog(t, "b x", "c x")

	// If later phases require the unreachable host, nothing begins.
	s = &scene{}
	phases := []Phase{{Name: "redis", Required: true, Jobs: []Job{away("r"), job("q", s.change("q", "x", nil))}}, p}
	sum, err = Run(t.Context(), phases, s.options())
	wantCode(t, err, CodeUnreachable)
	wantStatuses(t, sum, "r unreachable", "q not started", "a unreachable", "b not started", "c not started")
	s.wantLog(t)
}

func TestNothingBeginsBeforeAllPreflights(t *testing.T) {
	t.Parallel()
	s := &scene{}
	a, b := job("a", s.change("a", "x", nil)), job("b", s.change("b", "x", nil))
	asked := 0
	b.Preflight = []step.Step{
		step.NewProof("preflight: disk", func(context.Context, host.Host) error { asked++; return errBroken }),
		step.NewProof("preflight: disk", func(context.Context, host.Host) error { asked += 10; return nil }),
	}
	o := s.options()
	o.KeepGoing = true
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{a, b}}}, o)
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a not started", "b failed")
	s.wantLog(t)
	if asked != 1 {
		t.Errorf("asked %d", asked)
	}
}

func TestLostConnectionIsMetByANewOneForUndo(t *testing.T) {
	t.Parallel()
	s := &scene{}
	lost := func(context.Context) error {
		return fmt.Errorf("upload: %w", &host.ConnectionError{Host: "a", Err: io.ErrUnexpectedEOF})
	}
	j := job("a", s.change("a", "one", nil), s.change("a", "two", lost))
	connections := 0
	connect := j.Connect
	j.Connect = func(ctx context.Context) (host.Host, io.Closer, error) { connections++; return connect(ctx) }
	b := job("b", s.change("b", "x", nil))
	o := s.options()
	o.Canary = 1
	sum, err := Run(t.Context(), []Phase{{Name: "p", Rolling: true, Jobs: []Job{j, b}}}, o)
	wantCode(t, err, CodeUnreachable)
	wantStatuses(t, sum, "a unreachable", "b not started")
	s.wantLog(t, "a one", "a two", "undo a two", "undo a one")
	if connections != 2 {
		t.Errorf("%d connections, want 2", connections)
	}

	// If the host stays away, the report says so.
	s = &scene{}
	j = job("a", s.change("a", "one", nil), s.change("a", "two", lost))
	j.Connect = func() func(ctx context.Context) (host.Host, io.Closer, error) {
		first := true
		return func(ctx context.Context) (host.Host, io.Closer, error) {
			if first {
				first = false
				return connect(ctx)
			}
			return away("a").Connect(ctx)
		}
	}()
	sum, err = Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{j}}}, s.options())
	wantCode(t, err, CodeUnreachable)
	last := sum.Results[len(sum.Results)-1]
	if last.Step != "undo" || last.Status != report.Unreachable || !strings.Contains(last.Err.Error(), "nothing was undone") {
		t.Errorf("last result: %+v", last)
	}
}

func TestTheConnectionOfAnotherHostIsAFailure(t *testing.T) {
	t.Parallel()
	s := &scene{}
	asks := s.change("a", "x", func(context.Context) error { return &host.ConnectionError{Host: "redis-1", Err: io.EOF} })
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{job("a", asks)}}}, s.options())
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a failed")
}

func TestPanicIsAFailureOfOneHost(t *testing.T) {
	t.Parallel()
	s := &scene{}
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{
		job("a", s.change("a", "one", nil), s.change("a", "two", func(context.Context) error { panic("oh") })),
		job("b", s.change("b", "x", nil)),
	}}}, s.options())
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a failed", "b changed")
	if !s.happened("undo a one") || !strings.Contains(sum.Hosts[0].Error, "panic: oh") {
		t.Errorf("log %q, error %s", s.log, sum.Hosts[0].Error)
	}
}

func TestWrongCallsAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		phases []Phase
		o      Options
	}{
		"batch":      {[]Phase{{Name: "p"}}, Options{Batch: "0%"}},
		"twice":      {[]Phase{{Name: "p", Jobs: []Job{job("a"), job("a")}}}, Options{}},
		"parallel":   {nil, Options{Parallel: -1}},
		"resume":     {nil, Options{Resume: true}},
		"plan again": {nil, Options{Resume: true, Plan: true, Runs: "x"}},
	} {
		if _, err := Run(t.Context(), c.phases, c.o); Code(err) != CodeUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := &scene{}
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{job("a", step.Named("empty"))}}}, s.options())
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a failed")
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	const password = "correct horse"
	s := &scene{}
	o := s.options()
	o.Masker = &secret.Masker{}
	o.Masker.Add(password)
	tells := step.NewWish("tells", func(ctx context.Context, h host.Host) (*step.Change, error) {
		step.Say(ctx, "it is %s", password)
		step.Warn(ctx, "beware of %s", password)
		_, _ = h.Run(ctx, host.Command{Script: "echo " + password})
		return &step.Change{Summary: "set " + password, Diff: "+" + password, Apply: func(context.Context) error {
			return errors.New("cannot set " + password)
		}}, nil
	})

	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{job("a", tells)}}}, o)
	wantCode(t, err, CodeFailed)
	if len(sum.Warnings) != 1 {
		t.Errorf("warnings: %+v", sum.Warnings)
	}
	for _, e := range s.events {
		if shown := fmt.Sprintf("%+v %+v", e, e.Summary); strings.Contains(shown, password) {
			t.Errorf("shown: %s", shown)
		}
	}
}
