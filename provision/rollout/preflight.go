package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/settings"
	"github.com/cr-clawer/urifilter/provision/step"
)

// leastDisk is the free space, in KiB, that a release and its upload need where releases are.
const leastDisk = 100 << 10

// Preflight checks what must hold on the host before anything is changed. The program comes
// last, because building it takes the longest. The titles name the program: a host may run
// several, and all of their preflights are asked for.
func (i *Instance) Preflight() []step.Step {
	title := "preflight: build " + i.Program.Name
	if i.run.Builds.ready(i.Host, i.Program) != "" {
		title = "preflight: program " + i.Program.Name
	}
	return append(step.Early(
		step.NewProof("preflight: no package of "+i.Program.Name, i.units.Alone),
		step.NewProof("preflight: disk for "+i.Program.Name, func(ctx context.Context, h host.Host) error {
			script := fmt.Sprintf(`for d in %s/releases %[1]s /opt /; do [ ! -d "$d" ] || break; done; free=$(df -Pk "$d" | awk 'NR==2{print $4}'); [ "$free" -ge %[2]d ] || { echo "$((free/1024)) MB are free on $(df -P "$d" | awk 'NR==2{print $6}'): want %[3]d MB for a release" >&2; exit 1; }`,
				host.Quote(i.Program.Root()), leastDisk, leastDisk>>10)
			_, err := h.Run(ctx, host.Command{Script: script, Look: true})
			var failed *host.CommandError
			if errors.As(err, &failed) {
				return fmt.Errorf("%s\nhint: free space there", strings.TrimSpace(failed.Output.Stderr))
			}
			return err
		}),
		i.SettingsCheck(),
	), step.NewProof(title, func(ctx context.Context, h host.Host) error {
		_, err := i.binary(ctx, h)
		return err
	}))
}

// SettingsCheck is the preflight of the settings. Its errors say what to do next.
func (i *Instance) SettingsCheck() step.Proof {
	files := *i.settings
	files.Values = func(ctx context.Context) (settings.Values, error) {
		return i.run.Site.Settings(ctx, i.Host, i.Program, true)
	}
	check := files.Check()
	return step.NewProof(check.Title()+" of "+i.Program.Name, func(ctx context.Context, h host.Host) error {
		err := Hinted(check.Prove(ctx, h), i.Program)
		if ctx.Err() != nil || errors.As(err, new(*host.ConnectionError)) || errors.As(err, new(*host.CommandError)) {
			return err
		}
		return fleet.Usage(err)
	})
}

// Hinted adds a hint to an error about settings that would make a daemon let everybody in.
func Hinted(err error, p program.Program) error {
	if err != nil && strings.Contains(err.Error(), "set auth.tokens_file") {
		return fmt.Errorf("%w\nhint: %s makes a token for whoever calls it", err, TokenCall(p))
	}
	return err
}

// TokenCall returns the command that makes a token for most callers of a program.
func TokenCall(p program.Program) string {
	call := "go tool mage settings:token -name=crawler -scopes=" + p.Caller
	if !p.Runs(inventory.RoleFilter) {
		call += " -program=" + p.Name
	}
	return call
}
