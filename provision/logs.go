package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/rollout"
	"github.com/cr-clawer/urifilter/provision/service"
)

// Logs shows the last lines of the daemons' journals; since is a time in the format of journalctl,
// "" for any. With follow it continues with new lines until ctx ends.
func (t *Toolkit) Logs(ctx context.Context, lines int, since string, follow bool) error {
	if lines <= 0 {
		lines = 50
	}
	var mu sync.Mutex
	show := func(host, line string) {
		mu.Lock()
		defer mu.Unlock()
		line = t.masker.Mask(line)
		if t.json() {
			if text, err := json.Marshal(map[string]string{"host": host, "line": line}); err == nil {
				line = string(text)
			}
		} else {
			line = host + " | " + line
		}
		fmt.Fprintln(t.out, line)
	}
	return t.query(ctx, t.ofDaemon("logs"), func(ctx context.Context, i *rollout.Instance, h host.Host) (answer, error) {
		if follow {
			err := service.Follow(ctx, h, i.Program.Program, lines, since, func(line string) { show(h.Name(), line) })
			if err != nil { // the others may continue for hours
				fmt.Fprintf(t.errs, "%s: %s\n", h.Name(), t.masker.Mask(err.Error()))
			}
			return answer{told: err != nil}, err
		}
		text, err := service.Journal(ctx, h, i.Program.Program, lines, since)
		if err != nil {
			return answer{}, fleet.Usage(err)
		}
		return answer{text: text, data: map[string]any{"lines": strings.Split(text, "\n")}}, nil
	})
}
