package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// strict is a host on which no command can be run: whatever a test of the order of events does,
// it does in its steps.
type strict struct{ name string }

func (h strict) Name() string { return h.name }

func (h strict) Run(_ context.Context, c host.Command) (host.Output, error) {
	return host.Output{}, fmt.Errorf("%s: unexpected command: %s", h.name, c.Script)
}

func (h strict) Upload(_ context.Context, u host.Upload) error {
	return fmt.Errorf("%s: unexpected upload: %s", h.name, u.Path)
}

// scene records what happens in a run, in order.
type scene struct {
	mu     sync.Mutex
	log    []string
	events []report.Event
	state  map[string]bool // "web-1 step": as wished
	busy   int             // steps that are being applied now
	most   int             // the largest value of busy
}

func (s *scene) did(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *scene) Emit(e report.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *scene) happened(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.log, what)
}

// change returns a step that is not as wished until it is applied. If fail is not nil, Apply
// calls it and fails with its error.
func (s *scene) change(on, name string, fail func(ctx context.Context) error) step.Undoer {
	return &making{Named: step.Named(name), s: s, key: on + " " + name, fail: fail}
}

type making struct {
	step.Named
	s    *scene
	key  string
	fail func(ctx context.Context) error
}

func (m *making) Look(context.Context, host.Host) (*step.Change, error) {
	s := m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state[m.key] {
		return nil, nil
	}
	return &step.Change{Summary: "make " + m.Title(), Diff: "+" + m.Title() + "\n", Apply: func(ctx context.Context) error {
		s.enter()
		defer s.leave()
		s.did("%s", m.key)
		if m.fail != nil {
			if err := m.fail(ctx); err != nil {
				return err
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.state == nil {
			s.state = map[string]bool{}
		}
		s.state[m.key] = true
		return nil
	}}, nil
}

func (m *making) Undo(context.Context, host.Host, error) (string, error) {
	m.s.did("undo %s", m.key)
	return "took back " + m.Title(), nil
}

// undone is a step with its own undo function.
type undone struct {
	step.Wish
	undo func(ctx context.Context, h host.Host, cause error) (string, error)
}

func (u undone) Undo(ctx context.Context, h host.Host, cause error) (string, error) {
	return u.undo(ctx, h, cause)
}

func (s *scene) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
	s.most = max(s.most, s.busy)
}

func (s *scene) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
}

// job returns a job that connects to a strict host and has these steps.
func job(on string, steps ...step.Step) Job {
	return Job{
		Host:    on,
		Connect: func(context.Context) (host.Host, io.Closer, error) { return strict{on}, io.NopCloser(nil), nil },
		Steps:   func(context.Context, host.Host) ([]step.Step, error) { return steps, nil },
	}
}

// away returns a job for a host that cannot be reached.
func away(on string) Job {
	j := job(on)
	j.Connect = func(context.Context) (host.Host, io.Closer, error) {
		return nil, nil, &host.ConnectionError{Host: on, Err: errors.New("no route")}
	}
	return j
}

// options returns the options of most tests: without locks, which strict hosts do not have.
func (s *scene) options() Options { return Options{Target: "deploy", NoLock: true, Sink: s} }

// statuses returns the hosts' results in the form "web-1 changed".
func statuses(s Summary) []string {
	var all []string
	for _, h := range s.Hosts {
		all = append(all, h.Host+" "+string(h.Status))
	}
	return all
}

func wantStatuses(t *testing.T, s Summary, want ...string) {
	t.Helper()
	if got := statuses(s); !slices.Equal(got, want) {
		t.Errorf("hosts: got %q, want %q", got, want)
	}
}

func wantCode(t *testing.T, err error, want int) {
	t.Helper()
	if got := Code(err); got != want {
		t.Errorf("exit code: got %d, want %d (%v)", got, want, err)
	}
}

func (s *scene) wantLog(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.log, want) {
		t.Errorf("done: got %q, want %q", s.log, want)
	}
}
