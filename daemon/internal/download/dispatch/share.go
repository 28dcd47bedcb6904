package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// PriorityStep is the head start that one step of priority gives: a task is leased before all tasks
// of the next lower priority unless they were handed out at least this much earlier.
const PriorityStep = 30 * time.Second

// urgent is the value of the lane urgency, in ms: more than any wait.
const urgent = int64(1) << 50

// Rank is the rank of tasks that are handed out now, see [download.Tasks].
func Rank(now time.Time, lane download.Lane, priority int) int64 {
	rank := now.UnixMilli() - int64(priority)*PriorityStep.Milliseconds()
	if lane == download.Urgency {
		rank -= urgent
	}
	return rank
}

// demand is a job that has waiting tasks.
type demand struct {
	job         download.Job
	room        int // how many more may be handed out
	outstanding int // that are ready or running
	n           int // to be handed out
}

// share gives each job of one lane its n. A job that has nothing outstanding gets one even without
// free places, so that none starves. The remaining places go by priority, and in equal parts to
// jobs of the same priority.
func share(demands []*demand, free int) {
	for _, d := range demands {
		if d.outstanding == 0 && d.room > 0 {
			d.n = 1
			free--
		}
	}
	slices.SortStableFunc(demands, func(a, b *demand) int { return cmp.Compare(b.job.Priority, a.job.Priority) })
	for len(demands) > 0 && free > 0 {
		same := 1
		for same < len(demands) && demands[same].job.Priority == demands[0].job.Priority {
			same++
		}
		free -= level(demands[:same], free)
		demands = demands[same:]
	}
}

// level shares free places in equal parts. It begins with the job that needs the fewest, so that
// the others get what it leaves. It returns how many it gave.
func level(demands []*demand, free int) int {
	byNeed := slices.Clone(demands)
	slices.SortStableFunc(byNeed, func(a, b *demand) int { return cmp.Compare(a.room-a.n, b.room-b.n) })
	given := 0
	for i, d := range byNeed {
		left := len(byNeed) - i
		some := min(d.room-d.n, (free-given+left-1)/left)
		d.n += some
		given += some
	}
	return given
}
