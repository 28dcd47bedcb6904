package provision

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// turning is a step that turns something on, and off again.
func turning(name string, log *[]string, fail bool) step.Step {
	on := false
	return step.Step{
		Name: name,
		Look: func(context.Context, host.Host) (*step.Change, error) {
			if on {
				return nil, nil
			}
			return &step.Change{Summary: "turn on " + name, Apply: func(context.Context) error {
				*log = append(*log, name+" on")
				if fail {
					return errors.New("half way")
				}
				on = true
				return nil
			}}, nil
		},
		Undo: func(context.Context, host.Host, error) (string, error) {
			*log = append(*log, name+" off")
			return name + " is off", nil
		},
	}
}

func apply(t *testing.T, s step.Step) error {
	t.Helper()
	c, err := s.Look(t.Context(), nil)
	if err != nil || c == nil {
		t.Fatal(s.Name, c, err)
	}
	return c.Apply(t.Context())
}

func TestLedgerTakesBackAllLastFirstAndOnce(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	var log []string
	a, b, c, d := l.watch(turning("a", &log, false)), l.record(turning("b", &log, false)), l.watch(turning("c", &log, true)), l.watch(turning("d", &log, false))
	for _, s := range []step.Step{a, b} {
		if err := apply(t, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := apply(t, c); err == nil {
		t.Fatal("no error")
	}
	if err := apply(t, c); err == nil { // again, after half way
		t.Fatal("no error")
	}
	if _, err := d.Look(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if restart, reload := l.why(); restart != "turn on a, turn on c, turn on d" || reload != "turn on b" {
		t.Errorf("pending: %q, %q", restart, reload)
	}
	log = nil
	said, err := l.back(t.Context(), nil, nil, "")
	if err != nil || said != "c is off; b is off; a is off" || !slices.Equal(log, []string{"c off", "b off", "a off"}) {
		t.Errorf("%q, %v, %q", said, err, log)
	}
	// What a fleet does after that, step by step, is done already.
	for _, s := range []step.Step{c, b, a} {
		if said, err := s.Undo(t.Context(), nil, nil); said != "" || err != nil {
			t.Errorf("%s: %q, %v", s.Name, said, err)
		}
	}
	if len(log) != 3 {
		t.Errorf("taken back twice: %q", log)
	}
}

func TestLedgerKeepsWhatHasProvedItself(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	var log []string
	a := l.watch(turning("a", &log, false))
	if err := apply(t, a); err != nil {
		t.Fatal(err)
	}
	l.used()
	if restart, reload := l.why(); restart != "" || reload != "" {
		t.Errorf("pending: %q, %q", restart, reload)
	}
	l.keep(true)
	if said, err := a.Undo(t.Context(), nil, errors.New("a later step")); said != "" || err != nil || strings.Contains(strings.Join(log, " "), "off") {
		t.Errorf("%q, %v, %q", said, err, log)
	}
	l.keep(false) // it has crashed while it was watched
	if said, err := a.Undo(t.Context(), nil, errors.New("a crash")); said != "a is off" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
}

func TestLedgerGoesOnAfterAnUndoThatFails(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	var log []string
	a := l.watch(turning("a", &log, false))
	bad := turning("b", &log, false)
	bad.Undo = func(context.Context, host.Host, error) (string, error) { return "", errors.New("disk full") }
	bad = l.watch(bad)
	for _, s := range []step.Step{a, bad} {
		if err := apply(t, s); err != nil {
			t.Fatal(err)
		}
	}
	said, err := l.back(t.Context(), nil, nil, "")
	if said != "a is off" || err == nil || err.Error() != "b: disk full" {
		t.Errorf("%q, %v", said, err)
	}
}
