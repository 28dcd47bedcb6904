package schedule

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/cr-clawer/urifilter/provision/apt"
	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Steps returns the steps that set the schedule up, and remove what another kind has left.
func (s *Schedule) Steps(packages *apt.System) []step.Step {
	switch s.Kind {
	case Crontab:
		return []step.Step{s.cron(packages), s.noTimer(), s.crontab(), s.cronRuns()}
	case Timer:
		return []step.Step{s.noCrontab(), s.dropIns(), s.timer()}
	}
	return []step.Step{s.noCrontab(), s.noTimer()}
}

// noticed makes cron notice a change. cron compares the times of its folder and files in whole
// seconds, so that of two changes in one second it may never notice the second: on a fast
// host, those are its own installation and our file.
const noticed = "sleep 1.1; touch /etc/cron.d"

func (s *Schedule) noCrontab() step.Wish {
	return removal("schedule: crontab", noticed, s.Program.Crontab())
}

// text returns the crontab file.
func (s *Schedule) text() string {
	return `# ` + host.Written + `, which rewrites it when it differs.
# To ` + s.Program.Job.Does + `; journalctl -t ` + s.identifier() + ` shows how it went.
SHELL=/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
MAILTO=""
` + s.Program.Env("TOKEN_FILE") + `="` + s.Program.TokenFile() + `"
` + s.when.String() + " " + s.User + " " + "systemd-cat --identifier=" + s.identifier() + " " + s.command() + "\n"
}

func (s *Schedule) crontab() step.Undoer {
	wish := host.File{Path: s.Program.Crontab(), Content: s.text()}
	return step.NewUndoer("schedule: crontab", func(ctx context.Context, h host.Host) (*step.Change, step.Undo, error) {
		before, there, err := host.ReadFile(ctx, h, wish.Path)
		if err != nil || wish.Same(before) {
			return nil, nil, err
		}
		change := &step.Change{Summary: "write " + wish.Path, Diff: diff.Unified(wish.Path, before.Content, wish.Content), Apply: func(ctx context.Context) error {
			if err := host.AsRoot(ctx, h, "install -d -m 755 "+host.Quote(path.Dir(wish.Path))); err != nil {
				return err
			}
			return write(ctx, h, wish)
		}}
		return change, func(ctx context.Context, h host.Host) (string, error) {
			if there {
				return wish.Path + " is as it was before", write(ctx, h, before)
			}
			return wish.Path + " is removed", host.AsRoot(ctx, h, "rm -f "+host.Quote(wish.Path)+" && "+noticed)
		}, nil
	})
}

func write(ctx context.Context, h host.Host, crontab host.File) error {
	if err := host.WriteFile(ctx, h, crontab); err != nil {
		return err
	}
	return host.AsRoot(ctx, h, noticed)
}

// findCron prints the unit of the cron that is installed, and its states.
const findCron = `for u in cron.service crond.service cron.target cronie.service; do
	[ "$(systemctl show --property=LoadState --value $u)" = loaded ] || continue
	echo "$u $(systemctl show --property=ActiveState --value $u) $(systemctl is-enabled $u 2>/dev/null)"
	break
done
:`

// unit returns the unit of the host's cron, "" for none, and whether it is active and
// enabled.
func unit(ctx context.Context, h host.Host) (name string, active, enabled bool, err error) {
	out, err := h.Run(ctx, host.Command{Script: findCron, Look: true})
	if err != nil {
		return "", false, false, fmt.Errorf("cron: %w", err)
	}
	f := append(strings.Fields(out.Stdout), "", "", "")
	return f[0], f[1] == "active", f[2] != "disabled" && f[2] != "masked", nil
}

// cron is the step that installs cron if it is missing: Debian's images for clouds have
// none. Another program that reads /etc/cron.d is as good.
func (s *Schedule) cron(packages *apt.System) step.Wish {
	install := packages.Install("schedule: cron", "cron")
	return step.NewWish(install.Title(), func(ctx context.Context, h host.Host) (*step.Change, error) {
		if name, _, _, err := unit(ctx, h); err != nil || name != "" {
			return nil, err
		}
		return install.Look(ctx, h)
	})
}

func (s *Schedule) cronRuns() step.Wish {
	return step.NewWish("schedule: cron runs", func(ctx context.Context, h host.Host) (*step.Change, error) {
		name, active, enabled, err := unit(ctx, h)
		if err != nil || active && enabled {
			return nil, err
		}
		name = cmp.Or(name, "cron.service")
		return &step.Change{Summary: "enable and start " + name, Apply: func(ctx context.Context) error {
			return host.AsRoot(ctx, h, "systemctl enable --now "+name)
		}}, nil
	})
}
