package provision

import (
	"context"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
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
// last healthy one. Every host must have the release before any is changed.
func (t *Toolkit) Rollback(ctx context.Context, version string) error {
	t.noteFlags("version", version)
	return t.daemons(ctx, t.ofDaemon("rollback"), true, (*rollout.Instance).Rollback, func(i *rollout.Instance, j *fleet.Job) {
		j.Preflight = append(j.Preflight, i.Find(version))
	})
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
		note := s.Advice(i.Program.Program, h.Name())
		if s.Running() && id != list.Current {
			note = "restart it for " + list.Current
		}
		failed := ""
		if !s.Running() || ready != "yes" {
			failed = "at least one daemon is not ready: see above"
		}
		return answer{
			rows: [][]string{{"STATE", "READY", "RELEASE", "VERSION", "FOR", "MEMORY", ""}, {s.Short(), ready, id, r.Short(), since, memory(s.Memory), note}},
			data: data, failed: failed,
		}, nil
	})
}

func memory(bytes int64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%d MB", bytes/1e6)
}
