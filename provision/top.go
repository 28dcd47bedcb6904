package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/service"
)

// lookWithin is how long a look at a host that is connected may take.
const lookWithin = 10 * time.Second

// load is what a host's daemon does, as JSON.
type load struct {
	State   string                 `json:"state"`
	Ready   bool                   `json:"ready"`
	Note    string                 `json:"note,omitempty"` // what to do, or why it is not ready
	Release string                 `json:"release"`
	Version string                 `json:"version,omitempty"`
	Seconds float64                `json:"seconds,omitempty"` // since the process began
	Rates   *rates                 `json:"rates,omitempty"`   // nil: there was no look before
	Errors  float64                `json:"errors"`            // since the process began
	Filters []program.FilterCounts `json:"filters"`
}

type rates struct {
	Requests float64 `json:"requests_per_second"`
	Items    float64 `json:"items_per_second"`
	New      float64 `json:"new_per_second"`
	Errors   float64 `json:"errors_per_second"`
}

// gauge looks at one host again and again.
type gauge struct {
	t *Toolkit
	i *rollout.Instance

	via    host.Host // the connection that caller goes through
	caller *service.Caller
	before program.Counts
	at     time.Time // of before; zero: there is none

	mu     sync.Mutex
	looked bool
	now    load
	err    error // why there is no now
}

// Top shows what the daemons do, in a table that is drawn anew after each interval until ctx ends; or, if once
// is set, as JSON, or where nobody looks at a terminal, once with the rates of one interval.
func (t *Toolkit) Top(ctx context.Context, interval time.Duration, once bool) error {
	if interval < 100*time.Millisecond {
		return fleet.Usage(fmt.Errorf("-interval=%s: want 100ms or more", interval))
	}
	hosts, err := t.daemonHosts()
	if err != nil {
		return err
	}
	r, err := t.newRun(false)
	if err != nil {
		return err
	}
	once = once || t.json() || !terminal.Is(t.out)
	gauges := make([]*gauge, len(hosts))
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for n, h := range hosts {
		g := &gauge{t: t, i: r.instance(h, t.program)}
		gauges[n] = g
		all.Go(func() {
			g.look(ctx)
			for looks := 1; (!once || looks < 2 && g.err == nil) && host.Sleep(ctx, interval) == nil; looks++ {
				g.look(ctx)
			}
		})
	}
	if once {
		all.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return t.showLoads(gauges)
	}
	for host.Sleep(ctx, min(interval, time.Second)) == nil {
		if !t.asking.TryLock() {
			continue
		}
		err := terminal.Clear(t.out)
		if err == nil {
			_, err = io.WriteString(t.out, time.Now().Format(time.TimeOnly)+"  Ctrl-C ends\n\n"+t.loads(gauges))
		}
		t.asking.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// showLoads shows the table or the lines of JSON, and returns what the exit code says.
func (t *Toolkit) showLoads(gauges []*gauge) error {
	away, bad := "", ""
	for _, g := range gauges {
		h := report.HostSummary{Host: g.i.Host.Name, Status: report.OK}
		switch {
		case errors.As(g.err, new(*host.ConnectionError)):
			h.Status, h.Error, away = report.Unreachable, g.err.Error(), h.Host
		case g.err != nil:
			h.Status, h.Error, bad = report.Failed, g.err.Error(), h.Host
		case !g.now.Ready:
			bad = h.Host
		}
		if t.json() {
			t.showJSON(h, answer{data: g.now})
		}
	}
	if !t.json() {
		fmt.Fprint(t.out, t.loads(gauges))
	}
	switch {
	case away != "":
		return &fleet.Error{Code: fleet.CodeUnreachable, Err: fmt.Errorf("%s was not reached: see above", away)}
	case bad != "":
		return &fleet.Error{Code: fleet.CodeFailed, Err: fmt.Errorf("the daemon of %s is not ready: see above", bad)}
	}
	return nil
}

// loads is the table.
func (t *Toolkit) loads(gauges []*gauge) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "HOST\tSTATE\tREQUESTS/S\tITEMS/S\tNEW/S\tERRORS/S\tFULLEST\tRELEASE\tFOR")
	for _, g := range gauges {
		g.mu.Lock()
		fmt.Fprintln(w, strings.TrimRight(g.i.Host.Name+"\t"+t.masker.Mask(g.row()), "\t "))
		g.mu.Unlock()
	}
	flush(w)
	return terminal.Text(b.String())
}

// row is what the table says of a host. The reason why there is nothing to say is one line: hints stand in the
// output of other targets.
func (g *gauge) row() string {
	switch l := g.now; {
	case !g.looked:
		return "asking"
	case g.err != nil:
		why, _, _ := strings.Cut(g.err.Error(), "\n")
		if errors.As(g.err, new(*host.ConnectionError)) {
			return "away\t" + why
		}
		return "failed\t" + why
	case l.Seconds == 0:
		return l.State + "\t" + l.Note
	default:
		per := "-\t-\t-\t-"
		if r := l.Rates; r != nil {
			per = strings.Join([]string{perSecond(r.Requests), perSecond(r.Items), perSecond(r.New), perSecond(r.Errors)}, "\t")
		}
		full := "-"
		if len(l.Filters) > 0 {
			if f := slices.MaxFunc(l.Filters, func(a, b program.FilterCounts) int { return cmp.Compare(a.Full(), b.Full()) }); f.Capacity > 0 {
				full = fmt.Sprintf("%s %.1f %%", f.Name, 100*f.Full())
			}
		}
		age := time.Duration(l.Seconds * float64(time.Second)).Round(time.Second)
		return strings.Join([]string{l.State, per, full, l.Release, age.String(), l.Note}, "\t")
	}
}

// perSecond writes a rate, as a whole number from ten on.
func perSecond(rate float64) string {
	if rate > 0 && rate < 10 {
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}

// look asks the host once: a round trip for systemd, and one for the metrics.
func (g *gauge) look(ctx context.Context) {
	var now load
	err := g.t.visit(ctx, g.i.Host, func(h host.Host) (err error) {
		ctx, cancel := context.WithTimeoutCause(ctx, lookWithin, fmt.Errorf("no answer for %s", lookWithin))
		defer cancel()
		if now, err = g.ask(ctx, h); err != nil {
			g.forget()
			if ctx.Err() != nil {
				err = &host.ConnectionError{Host: g.i.Host.Name, Err: context.Cause(ctx)}
			}
		}
		return err
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looked, g.now, g.err = true, now, err
}

// forget lets the next look read the address of the daemon again.
func (g *gauge) forget() {
	if g.caller != nil {
		g.caller.Close()
		g.caller = nil
	}
}

func (g *gauge) ask(ctx context.Context, h host.Host) (load, error) {
	before, at := g.before, g.at
	g.at = time.Time{}
	s, err := service.StatusOf(ctx, h, g.i.Program.Program)
	if err != nil {
		return load{}, err
	}
	l := load{State: s.Short(), Note: s.Advice(g.i.Program.Program, h.Name()), Release: release.IDOf(s.Program)}
	if !s.Running() {
		return l, nil
	}
	l.Seconds = s.Age().Seconds()
	if g.caller == nil || g.via != h {
		g.forget()
		if g.caller, err = g.i.Health.Caller(ctx, h); err != nil {
			return load{}, err
		}
		g.via = h
	}
	a, err := g.caller.Call(ctx, http.MethodGet, "/metrics", "")
	if err == nil && a.Status != http.StatusOK {
		err = a.Problem("GET /metrics")
	}
	if err != nil {
		return load{}, err
	}
	c, err := g.i.Program.Counts(a.Body)
	if err != nil {
		return load{}, fmt.Errorf("GET /metrics: %w", err)
	}
	g.before, g.at = c, time.Now()
	l.Ready, l.Version, l.Errors, l.Filters = c.Ready, c.Version, c.Errors, c.Filters
	if !c.Ready {
		l.State = "not ready"
		if a, err := g.caller.Call(ctx, http.MethodGet, g.i.Program.Ready, ""); err == nil && a.Status != http.StatusOK {
			l.Note = a.Problem("GET " + g.i.Program.Ready).Error()
		}
	}
	if seconds := g.at.Sub(at).Seconds(); !at.IsZero() && before.Began == c.Began && seconds > 0 {
		per := func(now, before float64) float64 { return max(0, now-before) / seconds } // a filter made anew counts from 0
		l.Rates = &rates{per(c.Requests, before.Requests), per(c.Items, before.Items), per(c.New, before.New), per(c.Errors, before.Errors)}
	}
	return l, nil
}
