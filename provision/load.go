package provision

import (
	"context"
	"fmt"

	"github.com/cr-clawer/urifilter/provision/bench"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/rollout"
)

// BenchLoad puts the daemons under load, each by its own command line on its own host, and one
// after the other because they may share a store.
func (t *Toolkit) BenchLoad(ctx context.Context, l bench.Load) error {
	return t.queryAtOnce(ctx, "bench:load", 1, func(ctx context.Context, i *rollout.Instance, h host.Host) (answer, error) {
		settings, err := i.Health.Settings(ctx, h)
		if err != nil {
			return answer{}, err
		}
		fmt.Fprintf(t.errs, "%s: under load\n", h.Name())
		r, err := bench.Run(ctx, h, i.BitMaps.CLI, settings.URL, l)
		if err != nil {
			return answer{}, err
		}
		for _, text := range r.Warnings {
			fmt.Fprintf(t.errs, "%s: warning: %s\n", h.Name(), text)
		}
		ms := func(v float64) string { return fmt.Sprintf("%.2f", v) }
		times := r.Honest()
		a := answer{
			rows: [][]string{
				{"ITEMS/S", "DUPLICATES", "P50 MS", "P90", "P99", "P99.9", "MAX", "FAILED"},
				{fmt.Sprintf("%.0f", r.ItemsPerSec), fmt.Sprintf("%.1f %%", 100*r.Duplicates), ms(times.P50), ms(times.P90), ms(times.P99), ms(times.P999), ms(times.Max), r.Failed()},
			},
			data: r.All,
		}
		if len(r.Errors) > 0 || r.Items == 0 {
			a.failed = "batches failed on at least one host: see above"
		}
		return a, nil
	})
}
