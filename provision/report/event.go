// Package report shows people and programs what a run does to its hosts, while it does
// it and at the end: on a terminal, as plain lines, or as JSON lines. It decides
// nothing; package fleet makes the events.
package report

import (
	"time"

	"github.com/cr-clawer/urifilter/provision/secret"
)

// Kind says what an event is about.
type Kind string

const (
	// RunBegan is the first event: Text is the target, Run its id, Hosts those concerned.
	RunBegan Kind = "run"
	// PhaseBegan: Text says which hosts of the phase are next ("canary: web-1").
	PhaseBegan Kind = "phase"
	// StepBegan on Host: Step runs from now on.
	StepBegan Kind = "begin"
	// Progress of Step on Host: Sent of Size bytes of Text have arrived.
	Progress Kind = "progress"
	// Said is a message, in Text, of a step that runs; Warned is also shown at the end.
	// Without a Host it concerns the run.
	Said   Kind = "note"
	Warned Kind = "warning"
	// Output of a command that has ended: Command is its first line, Text what it wrote,
	// Code its exit code.
	Output Kind = "output"
	// StepEnded on Host with Status, Detail, Diff, Error and Seconds. Without a Step it is
	// the result of the host as a whole: unreachable, skipped, not started.
	StepEnded Kind = "result"
	// HostDone: the phase is done with Host, or has given up on it.
	HostDone Kind = "done"
	// RunEnded is the last event, with Summary.
	RunEnded Kind = "summary"
)

// Status is the result of a step, or of a host.
type Status string

const (
	OK          Status = "ok"           // it was as wished before; for a host: nothing had to change
	Changed     Status = "changed"      // applied, and checked afterwards
	WouldChange Status = "would change" // a plan: Diff and Detail say what
	Failed      Status = "failed"       // Error says why
	Unreachable Status = "unreachable"  // no connection, or it was lost
	Skipped     Status = "skipped"      // a plan cannot prove it; a resumed run has no need of it
	NotStarted  Status = "not started"  // the run ended before it
	Interrupted Status = "interrupted"  // the run was stopped in the middle of it
	Undone      Status = "undone"       // restored after a failure; Detail says what
)

// Event is something that happened. The JSON form is one event per line; fields that do
// not concern a kind are left out, and new ones may be added.
type Event struct {
	Kind  Kind      `json:"event"`
	Time  time.Time `json:"time"`
	Run   string    `json:"run,omitempty"`
	Hosts []string  `json:"hosts,omitempty"`
	Plan  bool      `json:"plan,omitempty"`

	Phase string `json:"phase,omitempty"`
	Host  string `json:"host,omitempty"`
	Step  string `json:"step,omitempty"`
	// Text is for people.
	Text string `json:"text,omitempty"`

	Command string `json:"command,omitempty"`
	Code    int    `json:"code,omitempty"`
	Sent    int64  `json:"sent,omitempty"` // bytes
	Size    int64  `json:"size,omitempty"` // bytes

	Status Status `json:"status,omitempty"`
	// Detail is one line: what was or would be changed, what an undo did.
	Detail string `json:"detail,omitempty"`
	// Diff is in the format of `diff -u`, with secrets hidden.
	Diff string `json:"diff,omitempty"`
	// Error may have several lines; a line "hint: ..." is the next step.
	Error string `json:"error,omitempty"`
	// Seconds is how long a step took.
	Seconds float64 `json:"seconds,omitempty"`

	Summary *Summary `json:"summary,omitempty"`
}

// Summary is the result of a run.
type Summary struct {
	Plan    bool    `json:"plan,omitempty"`
	Seconds float64 `json:"seconds"`
	// Code is the exit code of the target; package fleet lists them.
	Code int `json:"code"`
	// Hosts are in the order of the run.
	Hosts []HostSummary `json:"hosts"`
	// Warnings appear once each, with the hosts that they concern.
	Warnings []Warning `json:"warnings,omitempty"`
	// Next is what to do now, if something is left to do: a command to type.
	Next string `json:"next,omitempty"`
}

// Warning is something to attend to that stopped nothing.
type Warning struct {
	Text  string   `json:"text"`
	Hosts []string `json:"hosts,omitempty"` // none: it concerns the run
}

// HostSummary is what became of a host. Status is the worst of its steps.
type HostSummary struct {
	Host    string  `json:"host"`
	Status  Status  `json:"status"`
	OK      int     `json:"ok"`
	Changed int     `json:"changed"` // in a plan: would change
	Skipped int     `json:"skipped"`
	Failed  int     `json:"failed"`
	Seconds float64 `json:"seconds"` // that its steps took together
	// Step and Error are those of the first step that went wrong.
	Step  string `json:"step,omitempty"`
	Error string `json:"error,omitempty"`
}

// Sink receives events. It is called from many goroutines at once and must not wait for
// long: the run waits for it.
type Sink interface {
	Emit(Event)
}

// Masked hides known secrets in every text of the events before sink gets them.
func Masked(sink Sink, m *secret.Masker) Sink { return masked{sink, m} }

type masked struct {
	sink   Sink
	masker *secret.Masker
}

func (s masked) Emit(e Event) {
	for _, text := range []*string{&e.Text, &e.Command, &e.Detail, &e.Diff, &e.Error, &e.Step} {
		*text = s.masker.Mask(*text)
	}
	if e.Summary != nil {
		sum := *e.Summary
		sum.Hosts = append([]HostSummary(nil), sum.Hosts...)
		for i := range sum.Hosts {
			sum.Hosts[i].Error = s.masker.Mask(sum.Hosts[i].Error)
		}
		sum.Warnings = append([]Warning(nil), sum.Warnings...)
		for i := range sum.Warnings {
			sum.Warnings[i].Text = s.masker.Mask(sum.Warnings[i].Text)
		}
		e.Summary = &sum
	}
	s.sink.Emit(e)
}
