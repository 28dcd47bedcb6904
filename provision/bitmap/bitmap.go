// Package bitmap has the daemon's command line copy bit-maps to and from the archive, on the hosts
// themselves and as the service's user: `NAME bitmap ...`. All it knows of bit-maps is the output
// of that command.
package bitmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/step"
)

// CLI is the command line on a host.
type CLI struct {
	program.CLI
	Config string // path of the settings
	// Shared: several daemons use one store. A bit-map that another daemon is writing back at that
	// moment is skipped.
	Shared bool
	// Turn has room for one host, the one that makes bit-maps while others wait. Two hosts that made
	// them at once would give them different seeds, and only the first could ever write its own back
	// to their shared archive. nil: no host waits.
	Turn chan struct{}
}

// command runs `NAME bitmap ARGS`.
func (c CLI) command(args ...string) host.Command {
	return c.Command("bitmap " + host.Words(args...) + " --config " + host.Quote(c.Config))
}

// run reports each line that the command writes, and keeps the message of its error.
func (c CLI) run(ctx context.Context, h host.Host, args ...string) error {
	out, err := h.Run(ctx, c.command(args...))
	if err != nil {
		return c.explain(err, args[0])
	}
	for line := range strings.Lines(out.Stdout) {
		step.Say(ctx, "%s", strings.TrimRight(line, "\r\n"))
	}
	return nil
}

// explain makes an error from the program's own message.
func (c CLI) explain(err error, what string) error {
	if said := c.Said(err); said != "" {
		return fmt.Errorf("bitmap %s: %s", what, said)
	}
	return err
}

// line is one filter as `bitmap status --json` shows it.
type line struct {
	Filter  string          `json:"filter"`
	Store   json.RawMessage `json:"store"`
	Archive json.RawMessage `json:"archive"`
}

func isPresent(part json.RawMessage) bool { return len(part) > 0 && string(part) != "null" }

// Init is the step that makes the missing bit-map of each configured filter in store and archive.
// skip may say that it is too early; nil: it is not.
func (c CLI) Init(filters func(ctx context.Context, h host.Host) ([]string, error), skip func(ctx context.Context, h host.Host) (bool, error)) step.Wish {
	return step.NewWish("bitmap: init", func(ctx context.Context, h host.Host) (*step.Change, error) {
		if skip != nil {
			if not, err := skip(ctx, h); err != nil || not {
				return nil, err
			}
		}
		names, err := filters(ctx, h)
		if err != nil {
			return nil, err
		}
		lack, err := c.lack(ctx, h, names)
		if err != nil || lack == "" {
			return nil, err
		}
		return &step.Change{Summary: lack, Apply: func(ctx context.Context) error { return c.inTurn(ctx, func() error { return c.run(ctx, h, "init") }) }}, nil
	})
}

func (c CLI) inTurn(ctx context.Context, do func() error) error {
	if c.Turn == nil {
		return do()
	}
	select {
	case c.Turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.Turn }()
	return do()
}

// lack describes what is missing, "" if nothing is.
func (c CLI) lack(ctx context.Context, h host.Host, names []string) (string, error) {
	there, err := host.Exists(ctx, h, c.Binary)
	if err != nil {
		return "", err
	}
	if there {
		lines, err := c.status(ctx, h)
		switch {
		case err == nil:
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return lines[name].store && lines[name].archive })
			if len(names) == 0 {
				return "", nil
			}
		case !errors.As(err, new(*host.CommandError)):
			return "", err
		}
		// Another error may come from what is missing: if that is a fault, Apply meets it.
	}
	return "make the bit-maps of " + strings.Join(names, ", "), nil
}

type sides struct{ store, archive bool }

// status returns the state of each filter in store and archive.
func (c CLI) status(ctx context.Context, h host.Host) (map[string]sides, error) {
	ask := c.command("status", "--json")
	ask.Watch = true
	out, err := h.Run(ctx, ask)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Filters []line `json:"filters"`
	}
	if err := json.Unmarshal([]byte(out.Stdout), &answer); err != nil {
		return nil, fmt.Errorf("bitmap status: %w", err)
	}
	all := map[string]sides{}
	for _, l := range answer.Filters {
		all[l.Filter] = sides{isPresent(l.Store), isPresent(l.Archive)}
	}
	return all, nil
}

// Update is the step that writes bit-maps back now.
func (c CLI) Update(names ...string) step.Wish {
	args := []string{"update"}
	if c.Shared {
		args = append(args, "--yield")
	}
	return c.act("bitmap: update", "write back to the archive", append(args, names...)...)
}

// Restore is the step that copies archived bit-maps back to the store; version "" is the newest.
func (c CLI) Restore(version string, names ...string) step.Wish {
	args := []string{"restore"}
	if version != "" {
		args = append(args, "--version", version)
	}
	return c.act("bitmap: restore", "restore from the archive", append(args, names...)...)
}

func (c CLI) act(title, summary string, args ...string) step.Wish {
	return step.NewWish(title, func(_ context.Context, h host.Host) (*step.Change, error) {
		return &step.Change{Summary: summary, Act: true, Apply: func(ctx context.Context) error { return c.run(ctx, h, args...) }}, nil
	})
}

// Status returns the output of `NAME bitmap status`, for people or as JSON. There may be output
// even with an error.
func (c CLI) Status(ctx context.Context, h host.Host, asJSON bool, names ...string) (string, error) {
	args := []string{"status", "--quiet"}
	if asJSON {
		args = append(args, "--json")
	}
	out, err := h.Run(ctx, c.command(append(args, names...)...))
	if failed, is := errors.AsType[*host.CommandError](err); is {
		return failed.Output.Stdout, c.explain(err, "status")
	}
	return out.Stdout, err
}
