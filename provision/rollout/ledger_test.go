package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// turning returns a step that turns something on; undoing it turns that off.
func turning(name string, log *[]string, fail bool) *turn {
	return &turn{Named: step.Named(name), log: log, fail: fail}
}

type turn struct {
	step.Named
	log      *[]string
	fail, on bool
	stuck    error // of Undo
}

func (s *turn) Look(context.Context, host.Host) (*step.Change, error) {
	if s.on {
		return nil, nil
	}
	return &step.Change{Summary: "turn on " + s.Title(), Apply: func(context.Context) error {
		*s.log = append(*s.log, s.Title()+" on")
		if s.fail {
			return errors.New("half way")
		}
		s.on = true
		return nil
	}}, nil
}

func (s *turn) Undo(context.Context, host.Host, error) (string, error) {
	if s.stuck != nil {
		return "", s.stuck
	}
	*s.log = append(*s.log, s.Title()+" off")
	return s.Title() + " is off", nil
}

func apply(t *testing.T, s step.Wish) error {
	t.Helper()
	c, err := s.Look(t.Context(), nil)
	if err != nil || c == nil {
		t.Fatal(s.Title(), c, err)
	}
	return c.Apply(t.Context())
}

// undo undoes a step as a fleet does.
func undo(t *testing.T, s step.Wish, cause error) (string, error) {
	t.Helper()
	undoer, can := s.(step.Undoer)
	if !can {
		t.Fatalf("%s cannot be taken back", s.Title())
	}
	return undoer.Undo(t.Context(), nil, cause)
}

func TestLedgerTakesBackAllLastFirstAndOnce(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	var log []string
	a, b, c, d := l.watch(turning("a", &log, false)), l.record(turning("b", &log, false)), l.watch(turning("c", &log, true)), l.watch(turning("d", &log, false))
	for _, s := range []step.Wish{a, b} {
		if err := apply(t, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := apply(t, c); err == nil {
		t.Fatal("no error")
	}
	if err := apply(t, c); err == nil { // again, after it was half done
		t.Fatal("no error")
	}
	if _, err := d.Look(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if restart, reload := l.why(); restart != "turn on a, turn on c, turn on d" || reload != "turn on b" {
		t.Errorf("pending: %q, %q", restart, reload)
	}
	log = nil
	said, err := l.rollBack(t.Context(), nil, nil, "")
	if err != nil || said != "c is off; b is off; a is off" || !slices.Equal(log, []string{"c off", "b off", "a off"}) {
		t.Errorf("%q, %v, %q", said, err, log)
	}
	// The undoing that a fleet does after that, step by step, is already done.
	for _, s := range []step.Wish{c, b, a} {
		if said, err := undo(t, s, nil); said != "" || err != nil {
			t.Errorf("%s: %q, %v", s.Title(), said, err)
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
	if said, err := undo(t, a, errors.New("a later step")); said != "" || err != nil || strings.Contains(strings.Join(log, " "), "off") {
		t.Errorf("%q, %v, %q", said, err, log)
	}
	l.keep(false) // it crashed while it was watched
	if said, err := undo(t, a, errors.New("a crash")); said != "a is off" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
}

func TestLedgerGoesOnAfterAnUndoThatFails(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	var log []string
	a := l.watch(turning("a", &log, false))
	stuck := turning("b", &log, false)
	stuck.stuck = errors.New("disk full")
	bad := l.watch(stuck)
	for _, s := range []step.Wish{a, bad} {
		if err := apply(t, s); err != nil {
			t.Fatal(err)
		}
	}
	said, err := l.rollBack(t.Context(), nil, nil, "")
	if said != "a is off" || err == nil || err.Error() != "b: disk full" {
		t.Errorf("%q, %v", said, err)
	}
}

// What a host would do by itself is what the laptop would do: all that was begun, the last first, and
// recording it undoes nothing.
func TestTheWayBackAsAScript(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	var log []string
	for _, name := range []string{"settings", "units"} {
		if err := apply(t, l.watch(&saying{turn{Named: step.Named(name), log: &log}})); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		way, err := l.script(t.Context(), "web1")
		if err != nil || strings.Index(way, "restore units") < 0 || strings.Index(way, "restore units") > strings.Index(way, "restore settings") {
			t.Errorf("%v\n%s", err, way)
		}
	}
	if way, err := (&ledger{}).script(t.Context(), "web1"); way != "" || err != nil {
		t.Errorf("nothing was begun: %q, %v", way, err)
	}
}

// saying is a turn whose undoing is a command.
type saying struct{ turn }

func (s *saying) Undo(ctx context.Context, h host.Host, _ error) (string, error) {
	_, err := h.Run(ctx, host.Command{Root: true, Script: "restore " + s.Title()})
	return "", err
}
