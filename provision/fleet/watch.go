package fleet

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
)

// watched is a host that reports its commands to the sink. The steps get it. It answers a Look that
// was answered before, if nothing has been changed since: a round trip may take a fifth of a second.
type watched struct {
	host.Host
	emit func(report.Event)
	memo *memo
	// ahead is for steps that ask before their turn: the answers are kept, and reported in the turn; nothing
	// can be changed.
	ahead bool
}

// memo are the answers of a host to what looks at it.
type memo struct {
	mu      sync.Mutex
	answers map[lookup]answer
	watches map[lookup][]answer // to a Watch before the turn of its step: each is used once
	changes int                 // that have begun
}

// answer is what a command wrote.
type answer struct {
	out   host.Output
	event *report.Event // to be reported when it is used; nil: it has been
}

// lookup is a command that only looks.
type lookup struct {
	script, user, input string
	root, secret        bool
	ok                  string
}

// lookupOf returns what a command that only looks is known by; false: it changes something, or has an
// input that is not known.
func lookupOf(c host.Command) (lookup, bool) {
	if !c.Look && !c.Watch {
		return lookup{}, false
	}
	input, known := host.Input(c)
	return lookup{c.Script, c.User, input, c.Root, c.Secret, fmt.Sprint(c.OK)}, known
}

// forget forgets all: something is about to change on the host.
func (m *memo) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers, m.watches = nil, nil
	m.changes++
}

// settle forgets what changes by itself: the turns that it was asked for are over.
func (m *memo) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches = nil
}

// get returns the answer to a question, if there is one. In the turn of a step, that to a watch is used once,
// and what is to be reported is reported once.
func (m *memo) get(q lookup, watch, turn bool) (a answer, found bool, changes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !watch:
		if a, found = m.answers[q]; found && turn {
			m.answers[q] = answer{out: a.out}
		}
	case turn && len(m.watches[q]) > 0:
		a, found = m.watches[q][0], true
		m.watches[q] = m.watches[q][1:]
	}
	return a, found, m.changes
}

// put keeps an answer, unless something has begun to change since the question.
func (m *memo) put(q lookup, watch bool, a answer, changes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, asked := m.answers[q] // by two steps at once
	switch {
	case changes != m.changes || asked:
	case watch:
		if m.watches == nil {
			m.watches = map[lookup][]answer{}
		}
		m.watches[q] = append(m.watches[q], a)
	default:
		if m.answers == nil {
			m.answers = map[lookup]answer{}
		}
		m.answers[q] = a
	}
}

// Unwrap implements what host.As looks for.
func (w watched) Unwrap() host.Host { return w.Host }

// Run implements host.Host.
func (w watched) Run(ctx context.Context, c host.Command) (host.Output, error) {
	q, asks := lookupOf(c)
	if w.ahead && !asks {
		return host.Output{}, errAhead
	}
	var have answer
	var found bool
	var changes int
	switch {
	case asks:
		have, found, changes = w.memo.get(q, c.Watch, !w.ahead)
	case !c.Look && !c.Watch:
		w.memo.forget()
		defer w.memo.forget()
	}
	if found {
		if e := have.event; e != nil && !w.ahead {
			e.Step = stepOf(ctx)
			w.emit(*e)
		}
		return have.out, ctx.Err()
	}
	out, err := w.Host.Run(ctx, c)
	e := told(ctx, c, out, err)
	if asks && err == nil && (w.ahead || !c.Watch) {
		a := answer{out: out}
		if w.ahead {
			a.event = &e
		}
		w.memo.put(q, c.Watch, a, changes)
	}
	w.emit(e)
	return out, err
}

// told is what is reported of a command.
func told(ctx context.Context, c host.Command, out host.Output, err error) report.Event {
	e := report.Event{Kind: report.Output, Step: stepOf(ctx), Command: firstLine(c.Script), Code: out.Code}
	if bad, is := errors.AsType[*host.CommandError](err); is {
		out, e.Code = bad.Output, bad.Output.Code
	} else if err != nil {
		e.Error = err.Error()
	}
	if c.Secret {
		e.Command, e.Error = "(a secret command)", ""
	} else {
		e.Text = joinOutput(out)
	}
	return e
}

// joinOutput joins the stdout and stderr of a command.
func joinOutput(out host.Output) string {
	text := out.Stdout
	if text != "" && out.Stderr != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + out.Stderr
}

// Upload implements host.Host.
func (w watched) Upload(ctx context.Context, u host.Upload) error {
	if w.ahead {
		return errAhead
	}
	w.memo.forget()
	defer w.memo.forget()
	told := u.Progress
	var mu sync.Mutex
	var last time.Time
	u.Progress = func(sent, size int64) {
		if told != nil {
			told(sent, size)
		}
		mu.Lock()
		tell := sent >= size || time.Since(last) >= 100*time.Millisecond
		if tell {
			last = time.Now()
		}
		mu.Unlock()
		if tell {
			w.emit(report.Event{Kind: report.Progress, Step: stepOf(ctx), Text: "upload " + path.Base(u.Path), Sent: sent, Size: size})
		}
	}
	return w.Host.Upload(ctx, u)
}

type stepKey struct{}

// inStep names the step that runs under the context.
func inStep(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, stepKey{}, name)
}

func stepOf(ctx context.Context) string {
	name, _ := ctx.Value(stepKey{}).(string)
	return name
}

// firstLine is the first line of a script that does something, shortened.
func firstLine(script string) string {
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "set -") {
			continue
		}
		if runes := []rune(line); len(runes) > 100 {
			return string(runes[:99]) + "…"
		}
		return line
	}
	return ""
}
