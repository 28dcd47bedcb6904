package fleet

import (
	"context"
	"errors"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// As long as no host was worked on, the next step in a summary is the same call, because there is
// nothing to resume. Wrong settings and a wrong call have their own next step.
func TestNextFollowsFromHowFarARunCame(t *testing.T) {
	t.Parallel()
	proof := func(err error) []step.Step {
		return []step.Step{step.NewProof("preflight", func(context.Context, host.Host) error { return err })}
	}
	for name, c := range map[string]struct {
		preflight error
		fails     bool
		code      int
		next      string
	}{
		"preflight":    {errBroken, false, CodeFailed, "mage deploy -inventory=f"},
		"wrong call":   {Usage(errBroken), false, CodeUsage, ""},
		"in the midst": {nil, true, CodeFailed, "mage deploy -resume -inventory=f"},
		"done":         {nil, false, CodeDone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scene{}
			fail := func(context.Context) error { return nil }
			if c.fails {
				fail = broken
			}
			a, b := job("a", s.change("a", "x", fail)), job("b", s.change("b", "x", nil))
			a.Preflight = proof(c.preflight)
			o := s.options()
			o.Runs, o.Again, o.GoOn = t.TempDir(), "mage deploy -inventory=f", "mage deploy -resume -inventory=f"
			r, err := prepare([]Phase{{Name: "p", Rolling: true, Jobs: []Job{a, b}}}, o)
			if err != nil {
				t.Fatal(err)
			}
			r.record = &record{ID: r.o.ID, Target: "deploy"}
			r.begin()
			defer r.timekeeper(t.Context())()
			if r.open(t.Context()) {
				r.phase(t.Context(), r.phases[0])
			}
			sum, err := r.end(t.Context())
			wantCode(t, err, c.code)
			if sum.Next != c.next {
				t.Errorf("next: got %q, want %q", sum.Next, c.next)
			}
			var told *Error
			if errors.As(err, &told) && !told.Told {
				t.Error("the report has told it, and the error does not say so")
			}
		})
	}
}

// A step that is looked at again after its change warns again; the warning is shown once for each
// host, and once in the summary.
func TestAWarningIsToldOnce(t *testing.T) {
	t.Parallel()
	s := &scene{}
	change := s.change("a", "x", nil)
	look := func(ctx context.Context, h host.Host) (*step.Change, error) {
		step.Warn(ctx, "huge pages are off")
		return change.Look(ctx, h)
	}
	warns, second := step.NewWish("x", look), step.NewWish("again", look)
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{job("a", warns, second), job("b", warns)}}}, s.options())
	wantCode(t, err, CodeDone)
	told := map[string]int{}
	for _, e := range s.events {
		if e.Kind == report.Warned {
			told[e.Host]++
		}
	}
	if told["a"] != 1 || told["b"] != 1 || len(sum.Warnings) != 1 || len(sum.Warnings[0].Hosts) != 2 {
		t.Errorf("told %v times; at the end %+v", told, sum.Warnings)
	}
}
