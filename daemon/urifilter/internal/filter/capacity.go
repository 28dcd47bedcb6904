package filter

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// capacityWait bounds the look at the filter after the work of a run is done.
const capacityWait = 5 * time.Second

// warnOverCapacity warns, after a run, of a filter that holds more than it was made for: it calls
// new items seen, and the answers do not show which. If the daemon does not say (a token may not
// look), the run has not failed.
func warnOverCapacity(ctx context.Context, w io.Writer, daemon *client.Client, typ string) {
	ctx, cancel := context.WithTimeout(ctx, capacityWait)
	defer cancel()
	f, err := daemon.GetFilter(ctx, typ)
	if err != nil || f.Capacity == 0 || len(f.Layers) > 0 || f.ItemsEstimate <= f.Capacity || f.FPREstimate <= f.ErrorRate {
		return
	}
	fmt.Fprintf(w, "urifilter: warning: filter %s holds about %s items and was made for %s: of new items %s are called seen now, %s was asked for"+
		"%smake a larger one, or one that grows (`urifilter filters create NAME --on-full grow`), and ask that\n",
		f.Name, human.Count(int64(f.ItemsEstimate)), human.Count(int64(f.Capacity)), hundredths(f.FPREstimate), hundredths(f.ErrorRate), command.HintMark)
}

func hundredths(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
