package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// batchSize parses "3" or "25%" (of all); "" or 0 means all hosts at once.
func batchSize(batch string, all int) (int, error) {
	bad := fmt.Errorf("batch %q: a number of hosts, such as 3, or a share of them from 1%% to 100%%", batch)
	if batch == "" {
		return max(1, all), nil
	}
	number, share := strings.CutSuffix(batch, "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1 || share && n > 100:
		return 0, bad
	case share:
		return max(1, all*n/100), nil
	}
	return n, nil
}

// wave is the part of a phase whose hosts are changed concurrently.
type wave struct {
	name string // for people; "": the phase as a whole
	jobs []task
	// canary waves stop the run when they fail, also with KeepGoing.
	canary bool
}

// waves splits the jobs of a rolling phase. The batch is a share of all hosts of the
// phase, also where some of them are left out.
func waves(jobs []task, canary, batch int) []wave {
	var all []wave
	if n := min(canary, len(jobs)); n > 0 {
		all = append(all, wave{name: "canary", jobs: jobs[:n], canary: true})
		jobs = jobs[n:]
	}
	count := (len(jobs) + batch - 1) / batch
	for i := 1; len(jobs) > 0; i++ {
		n := min(batch, len(jobs))
		all = append(all, wave{name: fmt.Sprintf("batch %d of %d", i, count), jobs: jobs[:n]})
		jobs = jobs[n:]
	}
	return all
}
