package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
)

// record counts and reports a result. It returns whether the host can continue.
func (m *member) record(r Result) bool {
	run := m.run
	r.Host, r.at = m.name, run.order.of(m.name)
	fine := r.Err == nil && r.Status != report.Unreachable
	run.mu.Lock()
	run.results = append(run.results, r)
	if rank(r.Status) > rank(m.status) {
		m.status = r.Status
	}
	m.count(r)
	run.mu.Unlock()
	run.emit(report.Event{
		Kind: report.StepEnded, Phase: r.Phase, Host: r.Host, Step: r.Step, Status: r.Status,
		Detail: r.Detail, Diff: r.Diff, Error: r.errorText(), Seconds: r.Took.Seconds(),
	})
	return fine
}

func (m *member) count(r Result) {
	m.sum.Seconds += r.Took.Seconds()
	switch {
	case r.Err != nil:
		m.sum.Failed++
		switch {
		case m.sum.Step == "":
			m.sum.Step, m.sum.Error = r.Step, r.errorText()
		case r.undo:
			m.sum.Error += fmt.Sprintf("\n%s: %s", r.Step, r.errorText())
		}
	case slices.Contains([]string{"", "connect", "lock", "prepare"}, r.Step): // no work of its own
	case r.Status == report.OK:
		m.sum.OK++
	case r.Status == report.Skipped:
		m.sum.Skipped++
	case r.Status == report.Changed, r.Status == report.WouldChange:
		m.sum.Changed++
	}
}

// rank orders outcomes of steps from good to bad: the worst is the outcome of the host. -1 is that of a host without one.
func rank(s report.Status) int {
	return slices.Index([]report.Status{
		report.Skipped, report.OK, report.WouldChange, report.Changed, report.NotStarted, report.Interrupted, report.Unreachable, report.Failed,
	}, s)
}

// statusOf maps err to the status of the host m.
func statusOf(ctx context.Context, m *member, err error) report.Status {
	var lost *host.ConnectionError
	switch {
	case interrupted(ctx, err):
		return report.Interrupted
	case errors.As(err, &lost) && (lost.Host == m.name || lost.Host == ""):
		return report.Unreachable
	}
	return report.Failed
}

// errorText returns the error with the full output of a command, where that is more
// than the line in the error.
func (r Result) errorText() string {
	switch {
	case r.Err == nil:
		return ""
	case r.Status == report.Interrupted:
		return "stopped in the middle"
	}
	text := r.Err.Error()
	bad, is := errors.AsType[*host.CommandError](r.Err)
	if !is {
		return text
	}
	wrote := strings.TrimSpace(joinOutput(bad.Output))
	if !strings.Contains(text, "\nhint:") {
		text += hintFor(wrote)
	}
	if strings.Contains(wrote, "\n") {
		text = insertBeforeHint(text, "it wrote:\n"+indent(lastLines(wrote, 40)))
	}
	return text
}

// lossError reports a step that ended because the connection or lock was lost. Its text
// has one hint, that of the loss.
type lossError struct{ loss, err error }

func (e *lossError) Error() string {
	what, hint, _ := strings.Cut(e.loss.Error(), "\nhint:")
	step, own, _ := strings.Cut(e.err.Error(), "\nhint:")
	text := what + " (" + step + ")"
	hint = cmp.Or(hint, own)
	if hint != "" {
		text += "\nhint:" + hint
	}
	return text
}

// Unwrap returns both.
func (e *lossError) Unwrap() []error { return []error{e.loss, e.err} }

// hintFor returns the hint for a full or read-only disk, whatever the command was.
func hintFor(wrote string) string {
	switch {
	case strings.Contains(wrote, "No space left on device"), strings.Contains(wrote, "Disk quota exceeded"):
		return "\nhint: `df -h` and `df -i` on the host show which file system is full; free space there, then run the same command again"
	case strings.Contains(wrote, "Read-only file system"):
		return "\nhint: `findmnt -T PATH` on the host shows the file system, and `dmesg` why it is read-only; make it writable, then run the same command again"
	}
	return ""
}

// insertBeforeHint keeps the hint at the end, where users look for it.
func insertBeforeHint(text, more string) string {
	if at := strings.LastIndex(text, "\nhint:"); at >= 0 {
		return text[:at] + "\n" + more + text[at:]
	}
	return text + "\n" + more
}

func lastLines(text string, n int) string {
	all := strings.Split(text, "\n")
	if len(all) > n {
		all = append([]string{fmt.Sprintf("(%d lines before)", len(all)-n)}, all[len(all)-n:]...)
	}
	return strings.Join(all, "\n")
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
