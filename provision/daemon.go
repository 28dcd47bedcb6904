package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/step"
)

// ofDaemon returns the name of a target of the program.
func (t *Toolkit) ofDaemon(verb string) string { return t.program.Name + ":" + verb }

// Get pushes the release to the daemon's hosts, makes it current, and makes missing bit-maps. A
// running daemon keeps its old release until it is restarted.
func (t *Toolkit) Get(ctx context.Context) error {
	return t.onDaemons(ctx, t.ofDaemon("get"), func(i *rollout.Instance) ([]step.Step, error) { return i.Push(), nil })
}

// Start starts the daemons that are not running, and checks that they are healthy.
func (t *Toolkit) Start(ctx context.Context) error {
	return t.daemons(ctx, t.ofDaemon("start"), false, (*rollout.Instance).Start, nil)
}

// Stop stops the daemons and closes their ports.
func (t *Toolkit) Stop(ctx context.Context) error {
	return t.onDaemons(ctx, t.ofDaemon("stop"), func(i *rollout.Instance) ([]step.Step, error) { return []step.Step{i.Stop()}, nil })
}

// Restart restarts the daemons, host by host as in a deployment. A daemon that does not become
// healthy with a new release is brought back to the one it ran before.
func (t *Toolkit) Restart(ctx context.Context) error {
	return t.daemons(ctx, t.ofDaemon("restart"), true, (*rollout.Instance).Restart, nil)
}

// Rollback makes another release current and restarts: version is its id or a prefix of it; "": the
// last healthy one. It is one release for all hosts, and every host must have it before any is changed.
func (t *Toolkit) Rollback(ctx context.Context, version string) error {
	t.noteFlags("version", version)
	hosts, err := t.daemonHosts()
	if err != nil {
		return err
	}
	lists := t.listings(ctx, hosts)
	to, differ, err := release.Agree(lists, version)
	if differ != "" && err == nil {
		t.say("", fmt.Sprintf("the hosts differ: %s; all of them go to one release", differ))
	}
	return t.daemons(ctx, t.ofDaemon("rollback"), true, (*rollout.Instance).Rollback, func(i *rollout.Instance, j *fleet.Job) {
		j.Preflight = append(j.Preflight, i.Find(func(name string) (release.Manifest, error) {
			if _, asked := lists[name]; !asked && err == nil {
				return release.Manifest{}, errors.New("it was not reached when the hosts were asked for their releases\nhint: the same command again")
			}
			return to[name], err
		}))
	})
}

// listings asks hosts for their releases. Those that cannot be reached are missing: the run that
// follows reports them.
func (t *Toolkit) listings(ctx context.Context, hosts []inventory.Host) map[string]release.Listing {
	var mu sync.Mutex
	lists := map[string]release.Listing{}
	var all sync.WaitGroup
	for _, h := range hosts {
		all.Go(func() {
			_ = t.visit(ctx, h, func(at host.Host) error {
				list, err := release.At(t.program.Root(), t.program.Name).List(ctx, at)
				if err == nil {
					mu.Lock()
					lists[h.Name] = list
					mu.Unlock()
				}
				return err
			})
		})
	}
	all.Wait()
	return lists
}

// Releases lists the releases on hosts.
func (t *Toolkit) Releases(ctx context.Context) error {
	return t.query(ctx, t.ofDaemon("releases"), func(ctx context.Context, i *rollout.Instance, h host.Host) (answer, error) {
		list, err := i.Release.Folder.List(ctx, h)
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

// Status shows what runs on hosts.
func (t *Toolkit) Status(ctx context.Context) error {
	return t.query(ctx, t.ofDaemon("status"), func(ctx context.Context, i *rollout.Instance, h host.Host) (answer, error) {
		s, err := service.StatusOf(ctx, h, i.Program.Program)
		if err != nil {
			return answer{}, err
		}
		list, err := i.Release.Folder.List(ctx, h)
		if err != nil {
			return answer{}, err
		}
		ready := "-"
		if s.Running() {
			ready = i.Health.Ready(ctx, h)
		}
		id := cmp.Or(release.IDOf(s.Program), list.Current)
		r, _ := list.Find(id)
		proven := r.Healthy != nil && !s.Unconfirmed
		data := map[string]any{
			"proven": proven, "went_back": s.WentBack,
			"state": s.Active, "sub_state": s.Sub, "ready": ready == "yes", "release": id, "version": r.Version, "current": list.Current,
			"pid": s.PID, "restarts": s.Restarts, "memory": s.Memory, "enabled": s.Enabled,
		}
		note := s.Advice(i.Program.Program, h.Name())
		if s.Running() && id != list.Current {
			note = "restart it for " + list.Current
		}
		state := s.Short()
		if s.Running() && !proven {
			state += ", unproven"
			note = "no run has found it healthy: go tool mage deploy -hosts=" + h.Name()
			if s.Unconfirmed {
				note = "nobody has confirmed it yet: unless a run does, the host goes back by itself"
			}
		}
		if s.WentBack != "" {
			at, from, _ := strings.Cut(s.WentBack, " ")
			note = strings.TrimPrefix(note+"; ", "; ") + fmt.Sprintf("at %s it went back by itself from %s, which nobody had confirmed", at, from)
		}
		failed := ""
		if !s.Running() || ready != "yes" {
			failed = "at least one daemon is not ready: see above"
		}
		return answer{
			rows: [][]string{{"STATE", "READY", "RELEASE", "VERSION", "FOR", "MEMORY", ""}, {state, ready, id, r.Short(), upFor(s), memory(s.Memory), note}},
			data: data, failed: failed,
		}, nil
	})
}

// upFor is how long a daemon has run, by the clock of its host: that of this machine may differ.
func upFor(s service.Status) string {
	if !s.Running() {
		return "-"
	}
	return s.Age().Round(time.Second).String()
}

func memory(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%d MB", bytes/1e6)
}
