package provision

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// ledger remembers what the steps of a host have begun, so that all of it can be taken
// back before the daemon is started again: step by step, last first, would start the
// daemon before its old files are back. It also knows, in a plan, what would change.
type ledger struct {
	mu      sync.Mutex
	begun   []entry
	pending []string // what would change, or has changed and is not in use yet
	reread  []string // the same of what the daemon takes without a restart
	kept    bool     // the new state has proved itself: nothing is taken back
}

type entry struct {
	name string
	undo func(ctx context.Context, h host.Host, cause error) (string, error)
}

// watch puts a step whose change the daemon must be restarted for under the ledger.
func (l *ledger) watch(s step.Step) step.Step { return l.put(s, &l.pending) }

// record puts a step under the ledger whose change a reload makes known.
func (l *ledger) record(s step.Step) step.Step { return l.put(s, &l.reread) }

func (l *ledger) put(s step.Step, notes *[]string) step.Step {
	look, undo := s.Look, s.Undo
	s.Look = func(ctx context.Context, h host.Host) (*step.Change, error) {
		change, err := look(ctx, h)
		if err != nil || change == nil {
			return change, err
		}
		l.note(notes, change.Summary)
		apply := change.Apply
		change.Apply = func(ctx context.Context) error {
			if undo != nil {
				l.begin(entry{s.Name, undo})
			}
			return apply(ctx)
		}
		return change, nil
	}
	if undo != nil {
		s.Undo = func(ctx context.Context, h host.Host, cause error) (string, error) {
			return l.back(ctx, h, cause, s.Name)
		}
	}
	return s
}

func (l *ledger) note(notes *[]string, summary string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(*notes, summary) {
		*notes = append(*notes, summary)
	}
}

// why is what the daemon is restarted for, and reloaded; "" for nothing.
func (l *ledger) why() (restart, reload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.pending, ", "), strings.Join(l.reread, ", ")
}

// used is that the daemon has taken it: nothing is pending any more.
func (l *ledger) used() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending, l.reread = nil, nil
}

func (l *ledger) begin(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.begun {
		if b.name == e.name {
			return // Apply is called again after it has failed half way
		}
	}
	l.begun = append(l.begun, e)
}

// keep tells whether the new state has proved itself.
func (l *ledger) keep(proved bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = proved
}

// back takes back what was begun under a name, or all of it without one; each once, the
// last first. What has proved itself stays.
func (l *ledger) back(ctx context.Context, h host.Host, cause error, name string) (string, error) {
	var said []string
	var failed []error
	for {
		e, ok := l.take(name)
		if !ok {
			return strings.Join(said, "; "), errors.Join(failed...)
		}
		text, err := e.undo(ctx, h, cause)
		if err != nil {
			failed = append(failed, errors.New(e.name+": "+err.Error()))
		} else if text != "" {
			said = append(said, text)
		}
	}
}

func (l *ledger) take(name string) (entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept {
		return entry{}, false
	}
	for i := len(l.begun) - 1; i >= 0; i-- {
		if e := l.begun[i]; name == "" || e.name == name {
			l.begun = append(l.begun[:i:i], l.begun[i+1:]...)
			return e, true
		}
	}
	return entry{}, false
}
