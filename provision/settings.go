package provision

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/service"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
)

// tokenHint is the next step where a daemon would let everybody in.
const tokenHint = "hint: go tool mage settings:token -name=crawler -scopes=filter makes a token for whoever calls it"

// SettingsCheck validates the settings of all filter hosts without asking any, and shows
// them with secrets hidden.
func (t *Toolkit) SettingsCheck(ctx context.Context) error {
	hosts, err := t.filters()
	if err != nil {
		return err
	}
	r, err := t.newRun()
	if err != nil {
		return fleet.Usage(err)
	}
	r.offline = true
	var failed []error
	for _, h := range hosts {
		values, err := r.values(ctx, h, true)
		if err == nil {
			_, err = values.Config()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("host %s: %w", h.Name, hinted(err)))
			continue
		}
		text, err := values.Text()
		if err != nil {
			return err
		}
		if text == "" {
			text = "# all defaults\n"
		}
		fmt.Fprintf(t.o.Stdout, "# %s:%s\n%s\n", h.Name, settings.Path, secret.Hide(text))
	}
	return fleet.Usage(errors.Join(failed...))
}

// hinted adds the next step where a daemon would let everybody in.
func hinted(err error) error {
	if err != nil && strings.Contains(err.Error(), "set auth.tokens_file") {
		return fmt.Errorf("%w\n%s", err, tokenHint)
	}
	return err
}

// SettingsPush puts settings and tokens on filter hosts and has the daemons that run take
// them, host after host, each with a health check and the way back.
func (t *Toolkit) SettingsPush(ctx context.Context) error {
	return t.pushSettings(ctx, "settings:push")
}

// SettingsUpdate is SettingsCheck and SettingsPush.
func (t *Toolkit) SettingsUpdate(ctx context.Context) error {
	if err := t.SettingsCheck(ctx); err != nil {
		return err
	}
	return t.pushSettings(ctx, "settings:update")
}

func (t *Toolkit) pushSettings(ctx context.Context, target string) error {
	hosts, err := t.filters()
	if err != nil {
		return err
	}
	return t.do(ctx, target, func(r *run) ([]fleet.Phase, error) { return []fleet.Phase{r.pushPhase(hosts)}, nil })
}

func (r *run) pushPhase(hosts []inventory.Host) fleet.Phase {
	p := fleet.Phase{Name: inventory.RoleFilter, Rolling: true}
	for _, h := range hosts {
		m := r.machine(h)
		p.Jobs = append(p.Jobs, fleet.Job{
			Host: h.Name, Connect: r.connect(h), Preflight: []step.Step{m.ready(), m.settingsCheck()},
			Steps: func(ctx context.Context, h host.Host) ([]step.Step, error) { return m.pushSteps(ctx, h) },
			Late:  m.bake(),
		})
	}
	return p
}

// pushSteps depend on what the host has: settings may be there before a daemon is.
func (m *machine) pushSteps(ctx context.Context, h host.Host) ([]step.Step, error) {
	steps := m.settingsSteps()
	now, err := service.StatusOf(ctx, h)
	if err != nil {
		return nil, err
	}
	registered, err := m.registered(ctx, h, now)
	if err != nil {
		return nil, err
	}
	if registered {
		steps = append(steps, m.settings.Accepted(m.release.Folder.Program, m.run.inventory.Service.User))
		steps = append(steps, m.again()...)
	}
	if !now.Running() {
		step.Say(ctx, "no daemon runs here: it reads the settings when it is started")
		return steps, nil
	}
	return append(steps, m.start()...), nil
}

// registered tells whether a host has a release that systemd knows.
func (m *machine) registered(ctx context.Context, h host.Host, now service.Status) (bool, error) {
	list, err := m.release.Folder.List(ctx, h)
	return list.Current != "" && now.Load == "loaded", err
}

// again has the current release bring its units up to date: the port follows from the
// settings.
func (m *machine) again() []step.Step {
	m.units.Program = m.release.Folder.Program
	return m.serviceSteps()
}

// settingsCheck is the preflight of the settings, with the next step.
func (m *machine) settingsCheck() step.Proof {
	files := *m.settings
	files.Values = func(ctx context.Context) (settings.Values, error) { return m.run.values(ctx, m.host, true) }
	check := files.Check()
	return step.NewProof(check.Title(), func(ctx context.Context, h host.Host) error {
		err := hinted(check.Prove(ctx, h))
		if ctx.Err() != nil || errors.As(err, new(*host.ConnectionError)) || errors.As(err, new(*host.CommandError)) {
			return err
		}
		return fleet.Usage(err)
	})
}

// MakeToken adds a token to the tokens file on this machine and shows it, once.
func MakeToken(o Options, name, scopes string, replace bool) error {
	o.complete()
	inv, _, err := inventory.Open(inventory.Source{Path: o.Inventory, Dir: o.Dir, Getenv: o.Getenv})
	if err != nil {
		return fleet.Usage(err)
	}
	path := tokensFile(inv, o.Dir)
	var list []string
	for s := range strings.SplitSeq(scopes, ",") {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	token, err := settings.MakeToken(path, name, list, replace)
	if err != nil {
		return fleet.Usage(err)
	}
	shown := path
	if rel, err := filepath.Rel(o.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		shown = filepath.ToSlash(rel)
	}
	fmt.Fprintln(o.Stdout, token)
	fmt.Fprintf(o.Stderr, "That is the token of %s, for %s. It is shown this once: %s holds its digest.\n", name, strings.Join(list, ", "), shown)
	fmt.Fprintln(o.Stderr, "go tool mage settings:push makes the daemons know it; callers present it as Authorization: Bearer TOKEN.")
	return nil
}
