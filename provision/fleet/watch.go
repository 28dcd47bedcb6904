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
}

// memo are the answers of a host to what looks at it.
type memo struct {
	mu      sync.Mutex
	answers map[lookup]host.Output
	changes int // that have begun
}

// lookup is a command that only looks.
type lookup struct {
	script, user string
	root, secret bool
	ok           string
}

func lookupOf(c host.Command) lookup {
	return lookup{c.Script, c.User, c.Root, c.Secret, fmt.Sprint(c.OK)}
}

// forget forgets all: something is about to change on the host.
func (m *memo) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers = nil
	m.changes++
}

func (m *memo) get(c host.Command) (out host.Output, found bool, changes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, found = m.answers[lookupOf(c)]
	return out, found, m.changes
}

// put keeps an answer, unless something has begun to change since the question.
func (m *memo) put(c host.Command, out host.Output, changes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if changes != m.changes {
		return
	}
	if m.answers == nil {
		m.answers = map[lookup]host.Output{}
	}
	m.answers[lookupOf(c)] = out
}

// Unwrap implements what host.As looks for.
func (w watched) Unwrap() host.Host { return w.Host }

// Run implements host.Host.
func (w watched) Run(ctx context.Context, c host.Command) (host.Output, error) {
	looks := c.Look && c.Stdin == nil
	have, found, changes := w.memo.get(c)
	switch {
	case looks && found:
		return have, ctx.Err()
	case !c.Look && !c.Watch:
		w.memo.forget()
		defer w.memo.forget()
	}
	out, err := w.Host.Run(ctx, c)
	if looks && err == nil {
		w.memo.put(c, out, changes)
	}
	e := report.Event{Kind: report.Output, Step: stepOf(ctx), Command: firstLine(c.Script), Code: out.Code}
	var bad *host.CommandError
	if errors.As(err, &bad) {
		out, e.Code = bad.Output, bad.Output.Code
	} else if err != nil {
		e.Error = err.Error()
	}
	if c.Secret {
		e.Command, e.Error = "(a secret command)", ""
	} else {
		e.Text = joinOutput(out)
	}
	w.emit(e)
	return out, err
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
