package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/report"
)

// open connects to, checks and locks all hosts. It reports whether the phases may
// begin.
func (r *run) open(ctx context.Context) bool {
	r.each(r.ableMembers(), func(m *member) { m.open(ctx) })
	if !r.mayGoOn(ctx) {
		return false
	}
	r.each(r.ableMembers(), func(m *member) { m.check(ctx) })
	if !r.mayGoOn(ctx) {
		return false
	}
	if r.o.Plan || r.o.NoLock {
		return true
	}
	return r.lockAll(ctx)
}

func (r *run) ableMembers() []*member {
	return slices.DeleteFunc(slices.Clone(r.members), func(m *member) bool { return !m.able() })
}

// mayGoOn is called before anything is changed: if a host failed, or a required one is
// unreachable, no host is touched. A plan continues.
func (r *run) mayGoOn(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	if r.o.Plan {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.members, func(m *member) bool {
		return m.status == report.Failed || m.required && m.status == report.Unreachable && !r.o.KeepGoing
	})
}

// close releases the locks and closes the connections.
func (r *run) close(ctx context.Context) {
	var all sync.WaitGroup
	for _, m := range r.members {
		all.Go(func() {
			m.mu.Lock()
			l := m.lock
			m.mu.Unlock()
			if l != nil {
				limit := 5 * time.Second
				if ctx.Err() != nil {
					limit = r.reserve()
				}
				l.release(context.WithoutCancel(ctx), limit)
			}
			m.disconnect()
		})
	}
	all.Wait()
}

// end reports the outcome of the run.
func (r *run) end(ctx context.Context) (Summary, error) {
	for _, m := range r.members {
		if m.able() && m.done < m.jobs {
			m.record(Result{Status: report.NotStarted, Detail: r.whyNotStarted(ctx)})
		}
	}
	slices.SortStableFunc(r.results, func(a, b Result) int { return a.at - b.at })
	slices.SortStableFunc(r.warnings, func(a, b report.Warning) int { return r.warned[a.Text] - r.warned[b.Text] })
	s := Summary{ID: r.o.ID, Results: r.results}
	s.Plan, s.Seconds, s.Warnings = r.o.Plan, time.Since(r.began).Seconds(), r.warnings
	for _, m := range r.members {
		m.sum.Host, m.sum.Status = m.name, m.status
		s.Hosts = append(s.Hosts, m.sum)
	}
	s.Code = r.code(ctx)
	unfinished := s.Code == CodeFailed || s.Code == CodeUnreachable || s.Code == CodeInterrupted
	if unfinished && r.record != nil && !r.o.Plan {
		s.Next = r.o.Again
		if r.begun && r.o.GoOn != "" {
			s.Next = r.o.GoOn
		}
	}
	r.save(&s)
	s.Warnings = r.warnings // saving may have added one
	r.emit(report.Event{Kind: report.RunEnded, Run: r.o.ID, Plan: r.o.Plan, Summary: &s.Summary})
	if s.Code == CodeDone {
		return s, nil
	}
	return s, &Error{Code: s.Code, Told: r.o.Sink != discard{}, Err: errors.New(r.o.Masker.Mask(verdict(r.o.Target, s)))}
}

func (r *run) whyNotStarted(ctx context.Context) string {
	if ctx.Err() != nil {
		return "interrupted before"
	}
	for _, m := range r.members {
		if m.broken() {
			return fmt.Sprintf("because of %s", m.name)
		}
	}
	return ""
}

func (r *run) code(ctx context.Context) int {
	var locked, failed, wrong, unreachable, changes bool
	for _, m := range r.members {
		unreachable = unreachable || m.status == report.Unreachable
		changes = changes || m.sum.Changed > 0
	}
	for _, result := range r.results {
		before := result.Phase == "" && !result.undo // anything is changed
		switch {
		case before && errors.As(result.Err, new(*LockedError)):
			locked = true
		case before && result.Err != nil && Code(result.Err) == CodeUsage:
			wrong = true
		case result.Status == report.Failed:
			failed = true
		}
	}
	switch {
	case ctx.Err() != nil && r.unfinished():
		return CodeInterrupted
	case locked:
		return CodeLocked
	case failed:
		return CodeFailed
	case wrong:
		return CodeUsage
	case unreachable:
		return CodeUnreachable
	case r.o.Plan && r.o.ExitCode && changes:
		return CodeChanges
	}
	return CodeDone
}

// unfinished reports whether work remains. A Ctrl-C after the last step
// interrupted nothing.
func (r *run) unfinished() bool {
	return slices.ContainsFunc(r.members, func(m *member) bool { return !m.skip && m.done < m.jobs })
}

// verdict is one line: "deploy: 1 of 3 hosts failed, 2 not started".
func verdict(target string, s Summary) string {
	counts := map[report.Status]int{}
	for _, h := range s.Hosts {
		counts[h.Status]++
	}
	var parts []string
	for _, status := range []report.Status{report.Failed, report.Unreachable, report.Interrupted, report.NotStarted, report.WouldChange} {
		if n := counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, status))
		}
	}
	prefix := ""
	if target != "" {
		prefix = target + ": "
	}
	return fmt.Sprintf("%sof %s: %s", prefix, report.Count(len(s.Hosts), "host"), strings.Join(parts, ", "))
}
