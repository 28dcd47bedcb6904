//go:build unix

package chaos

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// evicted is how many items the mirrors of this round's daemons have had to let go of, as their metrics tell.
func (r *round) evicted() (all int, err error) {
	for _, d := range r.rig.daemons {
		answer, err := d.http().Get("http://" + d.addr + "/metrics")
		if err != nil {
			return 0, fmt.Errorf("metrics of %s: %w", d.name, err)
		}
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if name, value, _ := strings.Cut(lines.Text(), "} "); strings.HasPrefix(name, "urifilter_mirror_evicted_items_total{") {
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return 0, fmt.Errorf("metrics of %s: %q: %w", d.name, lines.Text(), err)
				}
				all += int(n)
			}
		}
		_ = answer.Body.Close()
	}
	return all, nil
}
