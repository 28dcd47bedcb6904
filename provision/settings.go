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
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
)

// SettingsCheck validates the settings of all hosts of the daemon without asking any, and shows
// them with secrets hidden.
func (t *Toolkit) SettingsCheck(ctx context.Context) error {
	hosts, err := t.daemonHosts()
	if err != nil {
		return err
	}
	r, err := t.newRun(true)
	if err != nil {
		return err
	}
	var failed []error
	for _, h := range hosts {
		values, err := r.site.Settings(ctx, h, t.program, true)
		if err == nil {
			_, err = values.Read(t.program)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("host %s: %w", h.Name, rollout.Hinted(err)))
			continue
		}
		text, err := values.Text()
		if err != nil {
			return err
		}
		if text == "" {
			text = "# all defaults\n"
		}
		fmt.Fprintf(t.o.Stdout, "# %s:%s\n%s\n", h.Name, t.program.Config(), secret.Hide(text))
	}
	return fleet.Usage(errors.Join(failed...))
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
	hosts, err := t.daemonHosts()
	if err != nil {
		return err
	}
	return t.do(ctx, target, func(r *run) ([]fleet.Phase, error) {
		return []fleet.Phase{r.pushSettings(t.program, hosts)}, nil
	})
}

// pushSettings is the phase that brings the settings of a program.
func (r *run) pushSettings(p program.Program, hosts []inventory.Host) fleet.Phase {
	push := func(ctx context.Context, h host.Host, i *rollout.Instance) ([]step.Step, error) {
		return i.PushSettings(ctx, h)
	}
	phase := r.phaseOf(p, hosts, push, func(i *rollout.Instance, j *fleet.Job) {
		j.Preflight, j.Late = append(j.Preflight, i.SettingsCheck()), i.Bake()
	})
	phase.Rolling = true
	return phase
}

// MakeToken adds a token to the tokens file on this machine and shows it, once.
func MakeToken(o Options, name, scopes string, replace bool) error {
	o.complete()
	inv, _, err := inventory.Open(o.source())
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
