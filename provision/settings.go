package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/secret"
	"github.com/cr-clawer/urifilter/provision/step"
)

// SettingsCheck validates the settings of all daemons without contacting a host, and shows them
// with secrets hidden.
func (t *Toolkit) SettingsCheck(ctx context.Context) error {
	if _, err := t.programs(); err != nil {
		return err
	}
	return t.check(ctx, func(h inventory.Host, p program.Program, text string) {
		fmt.Fprintf(t.out, "# %s:%s\n%s\n", h.Name, p.Config(), secret.Hide(text))
	})
}

// target is an entry of a file of Prometheus's file_sd_configs.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// SettingsScrape prints what Prometheus is to scrape, without contacting a host.
func (t *Toolkit) SettingsScrape(ctx context.Context) error {
	if err := t.check(ctx, nil); err != nil {
		return err
	}
	r, err := t.newRun(true)
	if err != nil {
		return err
	}
	targets := []target{}
	for _, p := range t.o.Programs {
		for _, h := range t.running(p) {
			at, tls, err := r.site.Scraped(ctx, h, p)
			if err != nil {
				return fleet.Usage(fmt.Errorf("host %s: %w", h.Name, err))
			}
			if at == "" {
				fmt.Fprintf(t.errs, "host %s: %s listens on loopback alone, and is left out\nhint: settings of that host: {listen: \"0.0.0.0:PORT\"}\n", h.Name, p.Name)
				continue
			}
			one := target{[]string{at}, map[string]string{"job": p.Name, "host": h.Name}}
			if tls {
				one.Labels["__scheme__"] = "https"
			}
			targets = append(targets, one)
		}
	}
	text, err := json.MarshalIndent(targets, "", "  ")
	fmt.Fprintf(t.out, "%s\n", text)
	return err
}

// check finds all that this machine can know to be wrong with the chosen hosts, without contacting
// one: the settings of their programs, which depend on other hosts too, and the ports that they
// share. It passes the settings that are right to show; nil: nobody.
func (t *Toolkit) check(ctx context.Context, show func(inventory.Host, program.Program, string)) error {
	r, err := t.newRun(true)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range t.o.Programs {
		for _, h := range t.running(p) {
			text, err := r.checkedSettings(ctx, p, h)
			switch {
			case err != nil:
				failed = append(failed, fmt.Errorf("host %s: %w", h.Name, rollout.Hinted(err, p)))
			case show != nil:
				show(h, p, text)
			}
		}
	}
	for _, h := range t.hosts {
		failed = append(failed, r.site.CheckPorts(ctx, h))
	}
	return fleet.Usage(errors.Join(failed...))
}

// checkedSettings returns the settings of a program for a host, as a file of its own.
func (r *run) checkedSettings(ctx context.Context, p program.Program, h inventory.Host) (string, error) {
	p = r.site.On(h, p)
	values, err := r.site.Settings(ctx, h, p, true)
	if err == nil {
		_, err = values.Read(p)
	}
	if err != nil {
		return "", err
	}
	text, err := values.Text()
	text = cmp.Or(text, "# all defaults\n")
	return text, err
}

// SettingsPush writes settings and tokens to hosts and has running daemons load them, host by host,
// each with a health check and a way back.
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
	programs, err := t.programs()
	if err != nil {
		return err
	}
	if err := t.check(ctx, nil); err != nil {
		return err
	}
	return t.execute(ctx, target, func(r *run) ([]fleet.Phase, error) {
		var phases []fleet.Phase
		for _, p := range programs {
			phases = append(phases, r.pushSettings(p, t.running(p)))
		}
		return phases, nil
	})
}

// pushSettings returns the phase that delivers the settings of a program.
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
