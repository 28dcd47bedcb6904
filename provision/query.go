package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/step"
)

// answer is the reply of a host to a target that changes nothing.
type answer struct {
	// rows is a table with its head, text is shown verbatim; only one is set.
	rows [][]string
	text string
	// data is the value for JSON output.
	data any
	// failed, if not "", makes the target exit with 1 although the host has answered.
	failed string
	// told: its error has been shown already.
	told bool
}

// query asks the hosts of the program, as many at once as the inventory says, changes nothing,
// takes no lock, and shows the answers in inventory order.
func (t *Toolkit) query(ctx context.Context, target string, ask func(context.Context, *rollout.Instance, host.Host) (answer, error)) error {
	return t.queryAtOnce(ctx, target, 0, ask)
}

// queryAtOnce is query with a given number of hosts at once; 0: as the inventory says.
func (t *Toolkit) queryAtOnce(ctx context.Context, target string, parallel int, ask func(context.Context, *rollout.Instance, host.Host) (answer, error)) error {
	hosts, err := t.daemonHosts()
	if err != nil {
		return err
	}
	r, err := t.newRun(false)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	answers := map[string]answer{}
	phase := fleet.Phase{Name: target}
	for _, h := range hosts {
		i := r.instance(h, t.program)
		phase.Jobs = append(phase.Jobs, fleet.Job{Host: h.Name, Connect: r.connect(h), Steps: func(context.Context, host.Host) ([]step.Step, error) {
			return []step.Step{step.NewProof(target, func(ctx context.Context, h host.Host) error {
				a, err := ask(ctx, i, h)
				mu.Lock()
				defer mu.Unlock()
				answers[h.Name()] = a
				return err
			})}, nil
		}})
	}
	o := t.fleet(target)
	o.NoLock, o.Plan, o.Resume, o.KeepGoing, o.Sink = true, false, false, true, nil
	o.Parallel = cmp.Or(parallel, o.Parallel)
	summary, err := fleet.Run(ctx, []fleet.Phase{phase}, o)
	t.show(summary, answers)
	for _, a := range answers {
		if a.failed != "" && err == nil {
			err = &fleet.Error{Code: fleet.CodeFailed, Err: errors.New(a.failed)}
		}
	}
	return err
}

// show prints the answers.
func (t *Toolkit) show(summary fleet.Summary, answers map[string]answer) {
	table := tabwriter.NewWriter(t.out, 0, 4, 2, ' ', 0)
	head := false
	for _, h := range summary.Hosts {
		a, answered := answers[h.Host]
		good := answered && h.Error == ""
		switch {
		case t.json():
			t.showJSON(h, a)
		case a.told:
		case !good:
			flush(table)
			fmt.Fprintf(t.errs, "%s: %s\n", h.Host, t.masker.Mask(h.Error))
		case a.rows != nil:
			for i, row := range a.rows {
				if i == 0 && head {
					continue
				}
				name := h.Host
				if i == 0 {
					name, head = "HOST", true
				}
				fmt.Fprintln(table, strings.TrimRight(name+"\t"+strings.Join(row, "\t"), "\t"))
			}
		default:
			for line := range strings.Lines(t.masker.Mask(a.text)) {
				fmt.Fprintf(t.out, "%s | %s\n", h.Host, strings.TrimRight(line, "\r\n"))
			}
		}
	}
	flush(table)
}

func flush(w *tabwriter.Writer) { _ = w.Flush() } // the reader is gone

func (t *Toolkit) showJSON(h report.HostSummary, a answer) {
	line := map[string]any{"host": h.Host, "status": h.Status}
	if h.Error != "" {
		line["error"] = t.masker.Mask(h.Error)
	} else {
		line["answer"] = a.data
	}
	text, err := json.Marshal(line)
	if err != nil {
		text = fmt.Appendf(nil, `{"host":%q,"error":%q}`, h.Host, err.Error())
	}
	_, _ = io.WriteString(t.out, string(text)+"\n")
}
