package step

import (
	"context"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
)

// Running is the wish that a service of systemd, named without its suffix, is enabled and runs. differs says why one
// that runs must be restarted, "" if it need not be; nil: nothing is a reason. act carries out one verb of systemctl.
func Running(title, unit string, differs func(ctx context.Context, h host.Host) (string, error), act func(ctx context.Context, h host.Host, verb string) error) Wish {
	return NewWish(title, func(ctx context.Context, h host.Host) (*Change, error) {
		u, err := host.LookAtUnit(ctx, h, unit+".service")
		if err != nil {
			return nil, err
		}
		var verbs []string
		why := ""
		if !u.Enabled {
			verbs = append(verbs, "enable")
		}
		switch {
		case !u.Active:
			verbs = append(verbs, "start")
		case differs != nil:
			if why, err = differs(ctx, h); err != nil {
				return nil, err
			}
			if why != "" {
				verbs, why = append(verbs, "restart"), ": "+why
			}
		}
		if len(verbs) == 0 {
			return nil, nil
		}
		return &Change{Summary: strings.Join(verbs, " and ") + " " + unit + why, Apply: func(ctx context.Context) error {
			for _, verb := range verbs {
				if err := act(ctx, h, verb); err != nil {
					return err
				}
			}
			return nil
		}}, nil
	})
}
