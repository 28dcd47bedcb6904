// Package schedule has filter hosts write their bit-maps back to the archive every month:
// by a crontab file of our own or by a systemd timer, never by both. Other crontabs are
// not touched. The units of the timer come from `urifilter service install --timer`.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/cr-clawer/urifilter/provision/crontab"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Kinds of a schedule.
const (
	Crontab = "crontab"
	Timer   = "timer"
	None    = "none"
)

// CrontabPath is our file. Its name has no dot: cron reads no file that has one.
const CrontabPath = "/etc/cron.d/urifilter"

// Identifier is under which the journal has what the crontab's job writes; that of the
// timer is under its unit, urifilter-writeback.service.
const Identifier = "urifilter-writeback"

// Options say what runs, when, and as whom.
type Options struct {
	Kind string // Crontab, Timer or None; "": Crontab
	When string // as in a crontab; "": 0 0 1 * *
	User string // of the service; "": urifilter
	// Group is the service's; "": the one with the user's name.
	Group string
	// Program, Config and TokenFile are paths on the host. "": /opt/urifilter/current/urifilter,
	// /etc/urifilter/urifilter.yaml and /etc/urifilter/operator.token.
	Program, Config, TokenFile string
	// Shared is for daemons that have one store in common: what another one is writing
	// back at that moment is left to it.
	Shared bool
}

// Schedule is Options that make sense.
type Schedule struct {
	Options
	when       crontab.Time
	onCalendar string // for a timer
}

// New checks the options.
func New(o Options) (*Schedule, error) {
	for _, d := range []struct {
		value *string
		with  string
	}{
		{&o.Kind, Crontab}, {&o.When, "0 0 1 * *"}, {&o.User, "urifilter"}, {&o.Program, "/opt/urifilter/current/urifilter"},
		{&o.Config, "/etc/urifilter/urifilter.yaml"}, {&o.TokenFile, "/etc/urifilter/operator.token"},
	} {
		if *d.value == "" {
			*d.value = d.with
		}
	}
	if o.Group == "" {
		o.Group = o.User
	}
	s := &Schedule{Options: o}
	var faults []error
	if o.Kind != Crontab && o.Kind != Timer && o.Kind != None {
		faults = append(faults, fmt.Errorf("schedule.kind %q: want crontab, timer or none", o.Kind))
	}
	var err error
	if s.when, err = crontab.Parse(o.When); err != nil {
		faults = append(faults, err)
	} else if o.Kind == Timer {
		s.onCalendar, err = s.when.OnCalendar()
		faults = append(faults, err)
	}
	for _, p := range []string{o.Program, o.Config, o.TokenFile} {
		if !path.IsAbs(p) || strings.ContainsAny(p, "\x00\r\n\"'\\$") {
			faults = append(faults, fmt.Errorf("schedule: path %q: want an absolute one without quotes, $ and \\", p))
		}
	}
	if o.User == "" || strings.ContainsAny(o.User, " \t\r\n:#%") {
		faults = append(faults, fmt.Errorf("schedule: user %q: want the name of one", o.User))
	}
	return s, errors.Join(faults...)
}

// command is what runs, in words.
func (s *Schedule) command() []string {
	words := []string{s.Program, "bitmap", "update", "--config", s.Config}
	if s.Shared {
		words = append(words, "--yield")
	}
	return words
}

// Next says when it will run next, in the host's own words and time zone; "" where that
// cannot be said.
func (s *Schedule) Next(ctx context.Context, h host.Host) (string, error) {
	expression, err := s.when.OnCalendar()
	if err != nil || s.Kind == None {
		return "", nil // a crontab may say what systemd cannot
	}
	out, err := h.Run(ctx, host.Command{Script: "systemd-analyze calendar --iterations=1 " + host.Quote(expression), OK: []int{1, 127}})
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

// removal is the step that removes files of ours which are not wanted.
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
			var words []string
			for _, p := range there {
				words = append(words, host.Quote(p))
			}
			_, err := h.Run(ctx, host.Command{Script: "rm -f " + strings.Join(words, " ") + " && { " + after + "; }", Root: true})
			return err
		}}, nil
	})
}
