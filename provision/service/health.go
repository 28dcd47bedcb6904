package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/step"
)

const (
	pollEvery = 300 * time.Millisecond
	// settle is how long the process must live without a restart before it counts as healthy.
	settle = 3 * time.Second
	// startsWithin is how long systemd, with no job for it, may take to begin a requested start.
	startsWithin = 5 * time.Second
	// badAnswers in all, other than "not ready yet", are a failure.
	badAnswers = 5
)

// Health checks a program's daemon on one host.
type Health struct {
	Program program.Program
	// Settings returns the settings that the daemon was given.
	Settings func(ctx context.Context, h host.Host) (program.Settings, error)
	// Token returns the host's own token, "" if the daemon requires none.
	Token func(ctx context.Context, h host.Host) (string, error)
	// Timeout is how long a start may take until the daemon is ready.
	Timeout time.Duration

	// acted is when this run started the daemon: the journal is shown from then on.
	acted time.Time
	// proved is the daemon that Prove has found healthy.
	proved Status
}

// Step returns the check as a step.
func (c *Health) Step() step.Proof {
	return step.NewProof("service: health", c.Prove)
}

// Prove waits until the daemon says that it is ready, watches that it stays the same
// process, and asks it a question. The error ends with the last lines of its journal.
func (c *Health) Prove(ctx context.Context, h host.Host) error {
	began := time.Now().Add(-time.Minute)
	err := c.prove(ctx, h)
	if !c.acted.IsZero() {
		began = c.acted
	}
	if err == nil || ctx.Err() != nil || errors.As(err, new(*host.ConnectionError)) {
		return err
	}
	return withJournal(ctx, h, c.Program.Program, err, time.Since(began))
}

func (c *Health) prove(ctx context.Context, h host.Host) error {
	settings, err := c.Settings(ctx, h)
	if err != nil {
		return err
	}
	token, err := c.Token(ctx, h)
	if err != nil {
		return err
	}
	first, err := StatusOf(ctx, h, c.Program.Program)
	if err != nil {
		return err
	}
	w := watch{Health: c, h: h, deadline: time.Now().Add(c.Timeout), restarts: first.settled()}
	up, err := w.active(ctx, &first)
	if err != nil {
		return err
	}
	since := time.Now()
	d, err := dial(h, settings.URL, token)
	if err == nil {
		defer d.Close()
		if err = w.ready(ctx, d); err == nil && settings.Ask != nil {
			err = settings.Ask(ctx, d)
		}
	}
	if forbidden(err) && settings.AskOnHost != nil {
		step.Say(ctx, "the host opens no tunnels: its own command line asks the daemon")
		err = w.onHost(ctx, settings, token)
	}
	if err != nil {
		return err
	}
	if err := w.steady(ctx, up, time.Since(since)); err != nil {
		return err
	}
	c.proved = up
	return nil
}

// Ready asks the daemon once whether it is ready, and returns "yes" or the reason why not.
func (c *Health) Ready(ctx context.Context, h host.Host) string {
	settings, err := c.Settings(ctx, h)
	if err != nil {
		return err.Error()
	}
	d, err := dial(h, settings.URL, "") // everybody may ask
	if err != nil {
		return err.Error()
	}
	defer d.Close()
	a, err := d.Call(ctx, http.MethodGet, c.Program.Ready, "")
	switch {
	case err != nil:
		return err.Error()
	case a.Status == http.StatusOK:
		return "yes"
	}
	return a.Problem("GET " + c.Program.Ready).Error()
}

// Caller returns a Caller of the daemon, and calls nothing yet.
func (c *Health) Caller(ctx context.Context, h host.Host) (*Caller, error) {
	settings, err := c.Settings(ctx, h)
	if err != nil {
		return nil, err
	}
	token, err := c.Token(ctx, h)
	if err != nil {
		return nil, err
	}
	return dial(h, settings.URL, token)
}

// watch is one check.
type watch struct {
	*Health
	h        host.Host
	deadline time.Time
	restarts int // that systemd had made before the check
	// old is when the process that is being replaced began; its states are ignored.
	old     time.Time
	replace bool
}

// down returns an error if a process has ended by itself.
func (w watch) down(s Status) error {
	if !s.crashed(w.restarts) {
		return nil
	}
	return fmt.Errorf("the daemon does not stay up: %s", s)
}

// active waits until the daemon has told systemd that it is up. known is its state, if that has just been asked.
func (w watch) active(ctx context.Context, known *Status) (s Status, err error) {
	said, began := "", time.Now()
	for {
		if known != nil {
			s, known = *known, nil
		} else {
			s, err = StatusOf(ctx, w.h, w.Program.Program)
		}
		gone := s.Active == "inactive" || s.Active == "failed"
		switch {
		case err != nil:
			return s, err
		case w.replace && s.Started.Equal(w.old) && s.Load == "loaded" && time.Now().Before(w.deadline):
			if gone && !s.Pending && time.Since(began) > startsWithin {
				return s, fmt.Errorf("systemd has not started the daemon: %s; %s is %s", s, w.Program.Socket(), s.Socket)
			}
		case w.replace && s.Load == "loaded":
			// The process to watch. If the previous one was crashing, systemd may have counted this
			// start among its own restarts.
			w.replace, w.restarts = false, s.Restarts
			continue
		case s.Load != "loaded":
			return s, fmt.Errorf("%s is %s\nhint: go tool mage install:service", w.Program.Service(), s)
		case w.down(s) != nil:
			return s, w.down(s)
		case s.Running():
			return s, nil
		case gone:
			return s, fmt.Errorf("the daemon does not run: %s\nhint: go tool mage %s:start", s, w.Program.Name)
		case time.Now().After(w.deadline):
			return s, fmt.Errorf("the daemon is still %s after %s%s", s.Active, w.Timeout, ifAny(": ", s.Text))
		}
		if s.Text != said && s.Text != "" {
			said = s.Text
			step.Say(ctx, "%s", said)
		}
		if err := host.Sleep(ctx, pollEvery); err != nil {
			return s, err
		}
	}
}

// ready waits until the daemon's Ready path, such as /readyz, says yes.
func (w watch) ready(ctx context.Context, d *Caller) error {
	bad, said := 0, ""
	for {
		a, err := d.Call(ctx, http.MethodGet, w.Program.Ready, "")
		last := ""
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case forbidden(err):
			return err
		case err != nil:
			last = err.Error()
		case a.Status == http.StatusOK:
			return nil
		default:
			last = a.Problem("GET " + w.Program.Ready).Error()
			if a.Status != http.StatusServiceUnavailable {
				bad++
			}
		}
		if bad >= badAnswers {
			return errors.New(last)
		}
		s, err := StatusOf(ctx, w.h, w.Program.Program)
		if err == nil {
			err = w.down(s)
		}
		if err != nil {
			return err
		}
		if time.Now().After(w.deadline) {
			return fmt.Errorf("not ready after %s: %s", w.Timeout, last)
		}
		if last != said {
			said = last
			step.Say(ctx, "not ready yet: %s", said)
		}
		if err := host.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// onHost checks the daemon without a tunnel, with the host's own command line.
func (w watch) onHost(ctx context.Context, settings program.Settings, token string) error {
	for {
		err := settings.AskOnHost(ctx, w.h, w.Program.Binary(), token)
		if err == nil || ctx.Err() != nil || time.Now().After(w.deadline) {
			return err
		}
		if s, failed := StatusOf(ctx, w.h, w.Program.Program); failed != nil || w.down(s) != nil {
			return errors.Join(failed, w.down(s), err)
		}
		if err := host.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// steady makes sure that the process that answered is still the one that was started. ago is
// how long ago it was found to be up.
func (w watch) steady(ctx context.Context, up Status, ago time.Duration) error {
	if err := host.Sleep(ctx, settle-up.steady()-ago); err != nil {
		return err
	}
	s, err := StatusOf(ctx, w.h, w.Program.Program)
	if err != nil {
		return err
	}
	if !s.Running() || s.PID != up.PID {
		return fmt.Errorf("the daemon does not stay up: process %d ended, now %s", up.PID, s)
	}
	return w.down(s)
}

func ifAny(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
