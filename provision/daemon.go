package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Get pushes the release to filter hosts, makes it current, and makes the bit-maps that
// are not there. A daemon that runs goes on with its old release until it is restarted.
func (t *Toolkit) Get(ctx context.Context) error {
	return t.onFilters(ctx, "urifilter:get", func(m *machine) ([]step.Step, error) {
		steps := []step.Step{m.release.Upload(), m.crashed(), m.release.Current()}
		if m.archived() {
			steps = append(steps, m.cli.Init(m.filterNames, nil))
		}
		return append(steps, m.release.Prune()), nil
	})
}

// Start starts the daemons that do not run, and checks that they are healthy.
func (t *Toolkit) Start(ctx context.Context) error {
	return t.daemons(ctx, "urifilter:start", false, func(m *machine) ([]step.Step, error) {
		return append(append([]step.Step{m.there()}, m.again()...), m.daemon.Start(), m.healthy()), nil
	})
}

// there proves that a host has a release to be started.
func (m *machine) there() step.Proof {
	return step.NewProof("release: there", func(ctx context.Context, h host.Host) error {
		list, err := m.release.Folder.List(ctx, h)
		if err != nil {
			return err
		}
		if _, ok := list.Find(list.Current); !ok {
			return errors.New("the host has no release\nhint: go tool mage deploy, or urifilter:get and install:service")
		}
		return nil
	})
}

// Stop stops the daemons and their ports.
func (t *Toolkit) Stop(ctx context.Context) error {
	return t.onFilters(ctx, "urifilter:stop", func(*machine) ([]step.Step, error) { return []step.Step{service.Stop()}, nil })
}

// Restart restarts the daemons, host after host as in a deployment. One that does not get
// healthy with another release than it ran before is brought back to that.
func (t *Toolkit) Restart(ctx context.Context) error {
	return t.daemons(ctx, "urifilter:restart", true, func(m *machine) ([]step.Step, error) {
		return append(append([]step.Step{m.there()}, m.again()...), m.restart(), m.healthy()), nil
	})
}

func (m *machine) restart() step.Undoer { return &restarting{Wish: m.daemon.Restart(), m: m} }

// restarting is a restart that goes back to the release that ran before it.
type restarting struct {
	step.Wish
	m   *machine
	ran string // the release that ran
}

func (r *restarting) Look(ctx context.Context, h host.Host) (*step.Change, error) {
	now, err := service.StatusOf(ctx, h)
	if err != nil {
		return nil, err
	}
	r.ran = release.IDOf(now.Program)
	return r.Wish.Look(ctx, h)
}

func (r *restarting) Undo(ctx context.Context, h host.Host, cause error) (string, error) {
	if r.m.ledger.kept {
		return "", nil
	}
	folder := r.m.release.Folder
	list, err := folder.List(ctx, h)
	if err != nil {
		return "", err
	}
	if _, there := list.Find(r.ran); !there || r.ran == list.Current {
		return "", nil // nothing else could run
	}
	change, err := folder.Pointing(func() string { return r.ran }).Look(ctx, h)
	if err == nil && change != nil {
		err = change.Apply(ctx)
	}
	if err != nil {
		return "", err
	}
	return r.m.back(ctx, h, cause)
}

// Rollback makes another release current and restarts: version is its id or the
// beginning of it; "": the one that was healthy last. Every host must have it before any
// is changed.
func (t *Toolkit) Rollback(ctx context.Context, version string) error {
	t.noteFlags("version", version)
	hosts, err := t.filters()
	if err != nil {
		return err
	}
	return t.do(ctx, "urifilter:rollback", func(r *run) ([]fleet.Phase, error) {
		p := r.phase(inventory.RoleFilter, hosts, (*machine).rollback)
		p.Rolling = true
		for i, h := range hosts {
			m := r.machine(h)
			p.Jobs[i].Preflight = append(p.Jobs[i].Preflight, m.find(version))
			p.Jobs[i].Late = append(m.bake(), m.release.Folder.Healthy())
		}
		return []fleet.Phase{p}, nil
	})
}

// find is the preflight of a rollback.
func (m *machine) find(version string) step.Proof {
	return step.NewProof("release: find", func(ctx context.Context, h host.Host) error {
		list, err := m.release.Folder.List(ctx, h)
		if err != nil {
			return err
		}
		to, err := list.Target(version)
		m.target = to.ID
		return err
	})
}

func (m *machine) rollback() ([]step.Step, error) {
	folder := m.release.Folder
	id := func() string { return m.target }
	m.units.Program = func() string { return folder.ProgramOf(m.target) }
	steps := []step.Step{m.settings.Accepted(m.units.Program, m.run.inventory.Service.User), m.crashed(), m.ledger.watch(folder.Pointing(id))}
	steps = append(steps, m.serviceSteps()...)
	return append(steps, m.start()...), nil
}

// Releases lists what filter hosts have.
func (t *Toolkit) Releases(ctx context.Context) error {
	return t.query(ctx, "urifilter:releases", inventory.RoleFilter, func(ctx context.Context, m *machine, h host.Host) (answer, error) {
		list, err := m.release.Folder.List(ctx, h)
		if err != nil {
			return answer{}, err
		}
		rows := [][]string{{"", "RELEASE", "VERSION", "BY", "HEALTHY"}}
		for _, r := range list.Releases {
			mark, healthy := " ", "never"
			if r.ID == list.Current {
				mark = "*"
			}
			if r.Healthy != nil {
				healthy = r.Healthy.Local().Format("2006-01-02 15:04")
			}
			rows = append(rows, []string{mark, r.ID, r.Short(), r.By, healthy})
		}
		for _, fault := range list.Faults {
			rows = append(rows, []string{"!", fault.Error()})
		}
		return answer{rows: rows, data: list}, nil
	})
}

// Status shows what runs on filter hosts.
func (t *Toolkit) Status(ctx context.Context) error {
	return t.query(ctx, "urifilter:status", inventory.RoleFilter, func(ctx context.Context, m *machine, h host.Host) (answer, error) {
		s, err := service.StatusOf(ctx, h)
		if err != nil {
			return answer{}, err
		}
		list, err := m.release.Folder.List(ctx, h)
		if err != nil {
			return answer{}, err
		}
		ready := "-"
		if s.Running() {
			ready = m.health.Ready(ctx, h)
		}
		id := release.IDOf(s.Program)
		if id == "" {
			id = list.Current
		}
		r, _ := list.Find(id)
		since := "-"
		if s.Running() {
			since = time.Since(s.Started).Round(time.Second).String()
		}
		data := map[string]any{
			"state": s.Active, "sub_state": s.Sub, "ready": ready == "yes", "release": id, "version": r.Version, "current": list.Current,
			"pid": s.PID, "restarts": s.Restarts, "memory": s.Memory, "enabled": s.Enabled,
		}
		note := s.Advice(h.Name())
		if s.Running() && id != list.Current {
			note = "restart it for " + list.Current
		}
		return answer{
			rows: [][]string{{"STATE", "READY", "RELEASE", "VERSION", "FOR", "MEMORY", ""}, {s.Short(), ready, id, r.Short(), since, memory(s.Memory), note}},
			data: data, failed: !s.Running() || ready != "yes",
		}, nil
	})
}

func memory(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%d MB", bytes/1e6)
}
