package provision

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/schedule"
	"github.com/cr-clawer/urifilter/provision/step"
)

// BitmapInit makes, on filter hosts, the bit-maps that are missing in the store or the archive.
func (t *Toolkit) BitmapInit(ctx context.Context) error {
	return t.onArchived(ctx, "bitmap:init", func(i *rollout.Instance) ([]step.Step, error) {
		return []step.Step{i.BitMaps.Init(i.BitMapNames, nil)}, nil
	})
}

// BitmapUpdate writes bit-maps back to the archive now.
func (t *Toolkit) BitmapUpdate(ctx context.Context, filters string) error {
	t.noteFlags("filters", filters)
	return t.onArchived(ctx, "bitmap:update", func(i *rollout.Instance) ([]step.Step, error) {
		return []step.Step{i.BitMaps.Update(words(filters)...)}, nil
	})
}

// BitmapRestore copies archived bit-maps back to the stores; version "" is the newest.
func (t *Toolkit) BitmapRestore(ctx context.Context, filters, version string) error {
	names := words(filters)
	if version != "" && len(names) != 1 {
		return fleet.Usage(fmt.Errorf("-version=%s: want one filter with it: -filters=NAME", version))
	}
	t.noteFlags("filters", filters, "version", version)
	return t.onArchived(ctx, "bitmap:restore", func(i *rollout.Instance) ([]step.Step, error) {
		return []step.Step{i.BitMaps.Restore(version, names...)}, nil
	})
}

// BitmapStatus shows the bit-maps in stores and archives.
func (t *Toolkit) BitmapStatus(ctx context.Context) error {
	return t.query(ctx, "bitmap:status", func(ctx context.Context, i *rollout.Instance, h host.Host) (answer, error) {
		text, err := i.BitMaps.Status(ctx, h, t.json())
		if err != nil {
			return answer{}, err
		}
		return answer{text: text, data: json.RawMessage(text)}, nil
	})
}

// WritebackStart sets up the monthly writeback and says when it runs next.
func (t *Toolkit) WritebackStart(ctx context.Context) error {
	if t.inventory.Schedule.Kind == schedule.None {
		return fleet.Usage(fmt.Errorf("schedule.kind of %s is none\nhint: make it crontab or timer", t.inventory.From()))
	}
	return t.onArchived(ctx, "bitmap:writebackStart", func(i *rollout.Instance) ([]step.Step, error) {
		s, err := i.Schedule(t.inventory.Schedule.Kind)
		if err != nil {
			return nil, err
		}
		steps, err := i.Timetable(t.inventory.Schedule.Kind)
		if err != nil {
			return nil, err
		}
		return append(steps, step.NewProof("schedule: next", func(ctx context.Context, h host.Host) error {
			next, err := s.Next(ctx, h)
			if next != "" {
				step.Say(ctx, "the next writeback is at %s", next)
			}
			return err
		})), nil
	})
}

// WritebackStop removes the monthly writeback. A deployment sets it up again unless the inventory
// says otherwise.
func (t *Toolkit) WritebackStop(ctx context.Context) error {
	return t.onDaemons(ctx, "bitmap:writebackStop", func(i *rollout.Instance) ([]step.Step, error) {
		steps, err := i.Timetable(schedule.None)
		if err != nil {
			return nil, err
		}
		if t.inventory.Schedule.Kind != schedule.None {
			steps = append(steps, step.NewProof("schedule: stays", func(ctx context.Context, _ host.Host) error {
				step.Say(ctx, "a deployment sets it up again unless schedule.kind of the inventory is none")
				return nil
			}))
		}
		return steps, nil
	})
}

// onArchived is onDaemons for targets that need an archive.
func (t *Toolkit) onArchived(ctx context.Context, target string, steps func(*rollout.Instance) ([]step.Step, error)) error {
	hosts, err := t.daemonHosts()
	if err != nil {
		return err
	}
	return t.execute(ctx, target, func(r *run) ([]fleet.Phase, error) {
		for _, h := range hosts {
			if !r.instance(h, t.program).Archived() {
				return nil, fmt.Errorf("host %s has no archive\nhint: give a host the role mongodb in %s, or mongodb.uri", h.Name, t.inventory.From())
			}
		}
		return []fleet.Phase{r.phaseOf(t.program, hosts, always(steps), nil)}, nil
	})
}
