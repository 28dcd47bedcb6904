package schedule

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/cr-clawer/urifilter/provision/diff"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/step"
	"github.com/cr-clawer/urifilter/systemd"
)

// The drop-ins contain what differs from the units that the program installs.
const dropInName = "toolkit.conf"

func dropInPath(unit string) string { return systemd.Dir + "/" + unit + ".d/" + dropInName }

const dropInHead = "# " + host.Written + ", which rewrites it when it differs.\n"

// dropInFiles returns the drop-ins of the job and of its timer.
func (s *Schedule) dropInFiles() []host.File {
	job := dropInHead + "[Service]\n" +
		`Environment="` + s.Program.Env("TOKEN_FILE") + `=` + s.Program.TokenFile() + "\"\n" +
		"ExecStart=\nExecStart=" + s.command() + "\n"
	timer := dropInHead + "[Timer]\nOnCalendar=\nOnCalendar=" + s.onCalendar + "\n"
	return []host.File{
		{Path: dropInPath(s.Program.JobService()), Content: job},
		{Path: dropInPath(s.Program.JobTimer()), Content: timer},
	}
}

func (s *Schedule) dropIns() step.Wish {
	return step.NewWish("schedule: timer's settings", func(ctx context.Context, h host.Host) (*step.Change, error) {
		var differ []host.File
		var names []string
		c := &step.Change{}
		for _, wish := range s.dropInFiles() {
			now, _, err := host.ReadFile(ctx, h, wish.Path)
			if err != nil {
				return nil, err
			}
			if !wish.Same(now) {
				differ, names = append(differ, wish), append(names, wish.Path)
				c.Diff += diff.Unified(wish.Path, now.Content, wish.Content)
			}
		}
		if len(differ) == 0 {
			return s.unread(ctx, h)
		}
		c.Summary = "write " + strings.Join(names, ", ")
		c.Apply = func(ctx context.Context) error { return host.PutUnits(ctx, h, differ...) }
		return c, nil
	})
}

// unread has systemd read the drop-ins that a run has left which was broken off before that.
func (s *Schedule) unread(ctx context.Context, h host.Host) (*step.Change, error) {
	units := host.Words(s.Program.JobService(), s.Program.JobTimer())
	out, err := h.Run(ctx, host.Command{Script: "systemctl show --property=NeedDaemonReload " + units, Watch: true})
	if err != nil || !strings.Contains(out.Stdout, "=yes") {
		return nil, err
	}
	return &step.Change{Summary: "have systemd read the files of " + units, Apply: func(ctx context.Context) error {
		return host.AsRoot(ctx, h, "systemctl daemon-reload")
	}}, nil
}

func (s *Schedule) timer() step.Wish {
	return step.NewWish("schedule: timer", func(ctx context.Context, h host.Host) (*step.Change, error) {
		st, err := host.LookAtUnit(ctx, h, s.Program.JobTimer())
		if err != nil || st.Active && (st.Enabled || st.Runtime) {
			return nil, err
		}
		return &step.Change{Summary: "enable and start " + s.Program.JobTimer(), Apply: func(ctx context.Context) error {
			if !st.Loaded {
				return s.register(ctx, h)
			}
			return host.AsRoot(ctx, h, "systemctl enable --now "+s.Program.JobTimer())
		}}, nil
	})
}

// register has the program install the timer's units, which it does only on request, and
// start the timer. From then on the program keeps them up to date with its other units.
func (s *Schedule) register(ctx context.Context, h host.Host) error {
	script := host.Words(s.Program.Binary(), "service", "install", "--timer", "--config", s.Program.Config(), "--user", s.User, "--group", s.Group)
	out, err := h.Run(ctx, host.Command{Script: script, Root: true, OK: []int{noProgram}})
	if err == nil && out.Code == noProgram {
		return fmt.Errorf("%s does not exist\nhint: go tool mage deploy", s.Program.Binary())
	}
	return err
}

// noProgram is the shell's exit code for a program that does not exist.
const noProgram = 127

// noTimer is the step after which no timer runs. The timer's units stay, disabled.
func (s *Schedule) noTimer() step.Wish {
	job, timer := dropInPath(s.Program.JobService()), dropInPath(s.Program.JobTimer())
	files := removal("", "rmdir "+path.Dir(job)+" "+path.Dir(timer)+" 2>/dev/null; systemctl daemon-reload", job, timer)
	return step.NewWish("schedule: no timer", func(ctx context.Context, h host.Host) (*step.Change, error) {
		st, err := host.LookAtUnit(ctx, h, s.Program.JobTimer())
		if err != nil {
			return nil, err
		}
		remove, err := files.Look(ctx, h)
		if err != nil || !st.Active && !st.Enabled && !st.Runtime && remove == nil {
			return nil, err
		}
		return &step.Change{Summary: "disable " + s.Program.JobTimer(), Apply: func(ctx context.Context) error {
			if st.Active || st.Enabled || st.Runtime {
				if err := host.AsRoot(ctx, h, "systemctl disable --now "+s.Program.JobTimer()); err != nil {
					return err
				}
			}
			if remove == nil {
				return nil
			}
			return remove.Apply(ctx)
		}}, nil
	})
}
