package fleet

import (
	"context"
	"errors"
	"sync"

	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// glance has the first of some steps, those that [step.Early] has marked, ask the host at the same time: a
// round trip may take a fifth of a second, and there are dozens of questions. Their turns follow, as if there had
// been none of this, but find the answers in the memo, as long as nothing has changed since. It returns how many
// they are, and when all have asked: nothing is changed or proved meanwhile.
func (m *member) glance(ctx context.Context, steps []step.Step) int {
	m.memo.settle()
	asks := step.Glances(steps)
	if len(asks) < 2 {
		return len(asks)
	}
	m.mu.Lock()
	h := watched{m.conn, func(report.Event) {}, &m.memo, true}
	m.mu.Unlock()
	var all sync.WaitGroup
	for _, ask := range asks {
		all.Go(func() {
			var err error // what is wrong is found, and told, in the turn of the step
			defer recovered(&err)
			err = ask(ctx, h)
		})
	}
	all.Wait()
	return len(asks)
}

// errAhead ends the early look of a step that would do more than ask what can be remembered.
var errAhead = errors.New("not before the turn of the step")
