package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// ledger remembers what the steps of a host have begun, so that all of it can be undone
// before the daemon is started again: undoing step by step, last first, would start the
// daemon before its old files are restored. In a plan, it also knows what would change.
type ledger struct {
	mu      sync.Mutex
	begun   []step.Undoer
	pending []string // what would change, or has changed and is not in use yet
	reread  []string // the same, for changes that the daemon takes up without a restart
	kept    bool     // the new state has proved itself: nothing is undone
}

// watch enters a step whose change requires a restart of the daemon.
func (l *ledger) watch(s step.Wish) step.Wish { return l.enter(s, &l.pending) }

// record enters a step whose change requires only a reload.
func (l *ledger) record(s step.Wish) step.Wish { return l.enter(s, &l.reread) }

func (l *ledger) enter(s step.Wish, notes *[]string) step.Wish {
	n := noted{Wish: s, ledger: l, notes: notes}
	if undoer, can := s.(step.Undoer); can {
		return entered{n, undoer}
	}
	return n
}

// noted is a step whose changes the ledger knows.
type noted struct {
	step.Wish
	ledger *ledger
	notes  *[]string // of the ledger
}

// Quiet implements step.Quiet: what is seen before the turn of the step is not noted.
func (n noted) Quiet() step.Wish { return n.Wish }

func (n noted) Look(ctx context.Context, h host.Host) (*step.Change, error) {
	change, err := n.Wish.Look(ctx, h)
	if err == nil && change != nil {
		n.ledger.note(n.notes, change.Summary)
	}
	return change, err
}

// entered is a noted step that the ledger can undo.
type entered struct {
	noted
	undoer step.Undoer
}

func (e entered) Look(ctx context.Context, h host.Host) (*step.Change, error) {
	change, err := e.noted.Look(ctx, h)
	if err != nil || change == nil {
		return nil, err
	}
	return change.Applied(func(ctx context.Context) error {
		e.ledger.begin(e.undoer)
		return change.Apply(ctx)
	}), nil
}

func (e entered) Undo(ctx context.Context, h host.Host, cause error) (string, error) {
	return e.ledger.rollBack(ctx, h, cause, e.Title())
}

func (l *ledger) note(notes *[]string, summary string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(*notes, summary) {
		*notes = append(*notes, summary)
	}
}

// why returns the reasons to restart and to reload the daemon; "" means none.
func (l *ledger) why() (restart, reload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.pending, ", "), strings.Join(l.reread, ", ")
}

// used records that the daemon has taken up the changes: nothing is pending any more.
func (l *ledger) used() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending, l.reread = nil, nil
}

func (l *ledger) begin(s step.Undoer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Apply is called again after it failed halfway.
	if !slices.ContainsFunc(l.begun, func(b step.Undoer) bool { return b.Title() == s.Title() }) {
		l.begun = append(l.begun, s)
	}
}

// isKept reports whether the new state has proved itself.
func (l *ledger) isKept() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept
}

// hasBegun reports whether there is something to roll back.
func (l *ledger) hasBegun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.begun) > 0
}

// keep records whether the new state has proved itself.
func (l *ledger) keep(proved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = proved
}

// script returns, as shell text for the host itself, what rollBack would do; "": nothing was begun.
func (l *ledger) script(ctx context.Context, name string) (string, error) {
	l.mu.Lock()
	begun := slices.Clone(l.begun)
	l.mu.Unlock()
	recorder := host.NewRecorder(name)
	for _, s := range slices.Backward(begun) {
		if _, err := s.Undo(ctx, recorder, errUnconfirmed); err != nil {
			return "", fmt.Errorf("%s: %w", s.Title(), err)
		}
	}
	return recorder.Script(), nil
}

// errUnconfirmed is why a host goes back by itself.
var errUnconfirmed = errors.New("nobody has confirmed it")

// rollBack undoes the step with that title or, if title is "", all steps that were begun; each
// once, the last first. A state that has proved itself stays.
func (l *ledger) rollBack(ctx context.Context, h host.Host, cause error, title string) (string, error) {
	var said []string
	var failed []error
	for {
		s, ok := l.pop(title)
		if !ok {
			return strings.Join(said, "; "), errors.Join(failed...)
		}
		text, err := s.Undo(ctx, h, cause)
		if err != nil {
			failed = append(failed, errors.New(s.Title()+": "+err.Error()))
		} else if text != "" {
			said = append(said, text)
		}
	}
}

func (l *ledger) pop(title string) (step.Undoer, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept {
		return nil, false
	}
	for i := len(l.begun) - 1; i >= 0; i-- {
		if s := l.begun[i]; title == "" || s.Title() == title {
			l.begun = append(l.begun[:i:i], l.begun[i+1:]...)
			return s, true
		}
	}
	return nil, false
}
