// Package schedule has hosts run a program's job, every month for example: by a crontab file
// of our own or by a systemd timer, never by both. Other crontabs are not touched. The units
// of the timer come from the program's own `service install --timer`.
package schedule

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/crontab"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/systemd"
)

// Kinds of a schedule.
const (
	Crontab = "crontab"
	Timer   = "timer"
	None    = "none"
)

// Options say what runs, when, and as whom.
type Options struct {
	// Program has a job, unless Kind is None.
	Program systemd.Program
	Kind    string // Crontab, Timer or None; "": Crontab
	When    string // as in a crontab; "": 0 0 1 * *
	User    string // of the service; "": that of Program
	// Group is the service's; "": the one with the user's name.
	Group string
	// Shared is for daemons that share one store: what another one is writing back at that
	// moment is left to it.
	Shared bool
}

// Schedule is a set of valid Options.
type Schedule struct {
	Options
	when       crontab.Time
	onCalendar string // for a timer
}

// New completes options of a valid inventory.
func New(o Options) (*Schedule, error) {
	o.Kind, o.When = cmp.Or(o.Kind, Crontab), cmp.Or(o.When, "0 0 1 * *")
	o.User = cmp.Or(o.User, o.Program.User())
	o.Group = cmp.Or(o.Group, o.User)
	if o.Program.Job == nil && o.Kind != None {
		return nil, fmt.Errorf("schedule: %s has nothing to do on one", o.Program.Name)
	}
	s := &Schedule{Options: o}
	var err error
	if s.when, err = crontab.Parse(o.When); err == nil && o.Kind == Timer {
		s.onCalendar, err = s.when.OnCalendar()
	}
	return s, err
}

// identifier is the one under which the journal has the output of the crontab's job; that of
// the timer's job is under its unit.
func (s *Schedule) identifier() string { return s.Program.Name + "-" + s.Program.Job.Name }

// command returns the command line that runs. Its words need no quotes, in a crontab or in a unit.
func (s *Schedule) command() string {
	line := s.Program.Binary() + " " + strings.Join(s.Program.Job.Args, " ") + " --config " + s.Program.Config()
	if s.Shared {
		line += " --yield"
	}
	return line
}

// Next returns when the job will run next, in the host's own words and time zone; "" if that
// cannot be said.
func (s *Schedule) Next(ctx context.Context, h host.Host) (string, error) {
	expression, err := s.when.OnCalendar()
	if err != nil || s.Kind == None {
		return "", nil // a crontab may express what systemd cannot
	}
	out, err := h.Run(ctx, host.Command{Script: "systemd-analyze calendar --iterations=1 " + host.Quote(expression), OK: []int{1, 127}, Look: true})
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out.Stdout) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), ": "); key == "Next elapse" {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

// removal is the step that removes files of ours that are not wanted.
func removal(name string, after string, paths ...string) step.Wish {
	return step.NewWish(name, func(ctx context.Context, h host.Host) (*step.Change, error) {
		var there []string
		for _, p := range paths {
			yes, err := host.Exists(ctx, h, p)
			if err != nil {
				return nil, err
			}
			if yes {
				there = append(there, p)
			}
		}
		if len(there) == 0 {
			return nil, nil
		}
		return &step.Change{Summary: "remove " + strings.Join(there, ", "), Apply: func(ctx context.Context) error {
			return host.AsRoot(ctx, h, "rm -f "+host.Words(there...)+" && { "+after+"; }")
		}}, nil
	})
}
