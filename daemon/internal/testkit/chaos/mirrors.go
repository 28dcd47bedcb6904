//go:build unix

package chaos

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// evicted returns how many items the mirrors of this round's daemons have evicted, by their metrics.
func (r *round) evicted() (all float64, err error) {
	for _, d := range r.rig.daemons {
		answer, err := d.http().Get("http://" + d.addr + "/metrics")
		if err != nil {
			return 0, fmt.Errorf("metrics of %s: %w", d.name, err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, "} "); strings.HasPrefix(name, "urifilter_mirror_evicted_items_total{") {
				n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
				all += n
			}
		}
	}
	return all, nil
}
