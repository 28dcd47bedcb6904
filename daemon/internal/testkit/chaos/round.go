//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
)

// The longest waits at both ends of a round, the time between figures, and the final batch size.
const (
	beginTimeout   = 2 * time.Minute
	recoverTimeout = 4 * time.Minute
	showEvery      = 10 * time.Second
	finalBatch     = 2000
)

// round is one set of servers, from their start to the verdict.
type round struct {
	*campaign
	store        string
	seed         uint64
	inDoubt      string // redis.in_doubt of the daemons
	bounded      bool   // the mirrors of all daemons but one are tight
	started      time.Time
	rig          *rig
	pools        []*pool
	callers      []*caller
	nemesis      *nemesis
	incarnations map[string][]history.Incarnation // guarded by the nemesis
	history      *history.History

	failures sync.Mutex
	wrong    []string
}

// growing reports whether the filter forEver grows.
func (r *round) growing() bool { return r.seed%2 == 1 }

func (r *round) elapsed() time.Duration { return time.Since(r.started) }

// fail notes something that is wrong, whatever the callers were told.
func (r *round) fail(format string, args ...any) {
	r.failures.Lock()
	defer r.failures.Unlock()
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// begin starts servers and makes the callers.
func (c *campaign) begin(store string, seed uint64) (*round, error) {
	r := &round{campaign: c, store: store, seed: seed, started: time.Now(), incarnations: map[string][]history.Incarnation{}, history: &history.History{}}
	rnd := rand.New(rand.NewPCG(seed, 3))
	r.inDoubt = []string{"seen", "seen", "seen", "new"}[rnd.IntN(4)]
	r.bounded = inRedis(store) && seed%3 == 0
	var err error
	if r.rig, err = newRig(c.t, store, c.binaries, r); err != nil {
		return r, err
	}
	r.nemesis = newNemesis(r)
	if err := r.rig.awaitReady(context.Background(), beginTimeout); err != nil {
		return r, err
	}
	for m, daemons := range r.rig.memories {
		r.pools = append(r.pools, &pool{lasting: r.store == "mysql"})
		if err := r.makeChurned(daemons); err != nil {
			return r, err
		}
		if err := r.makeCallers(m, daemons); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *round) makeChurned(daemons []*daemon) error {
	c, err := client.New(addresses(daemons), client.WithPatience(20*time.Second))
	if err != nil {
		return err
	}
	defer c.Close()
	_, _, err = c.CreateFilter(context.Background(), churned, churnedSpec(r.store))
	if len(daemons) > 1 {
		pause(context.Background(), dropGrace)
	}
	return err
}

// makeCallers makes the callers of a memory: one for each daemon, two that go from one to
// the next, one that repeats calls whose answers were lost, one of Redis, and one in Python.
func (r *round) makeCallers(m int, daemons []*daemon) error {
	add := func(name string, daemons []*daemon, doubt client.Doubt) error {
		c, err := r.newCaller(fmt.Sprintf("%s-%d", name, m+1), m, daemons, doubt, uint64(10+len(r.callers)))
		r.callers = append(r.callers, c)
		return err
	}
	var errs []error
	for _, d := range daemons {
		errs = append(errs, add("at-"+d.name, []*daemon{d}, client.DoubtError))
	}
	errs = append(errs,
		add("any", daemons, client.DoubtError), add("other", daemons, client.DoubtError),
		add("in-doubt-"+[]string{"seen", "new"}[r.seed%2], daemons, []client.Doubt{client.DoubtSeen, client.DoubtNew}[r.seed%2]),
		add("redis", daemons, client.DoubtError),
		add("python", daemons, client.DoubtError))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	python, err := newPython(r.module, r.t.TempDir(), addresses(daemons))
	r.callers[len(r.callers)-1].asker = python
	r.callers[len(r.callers)-2].asker = newRESP(daemons, r.store)
	return err
}

// disturb runs the callers and the nemesis for a while, repairs everything, and asks for all
// items once more.
func (r *round) disturb(ctx context.Context, length time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var callers, others sync.WaitGroup
	for _, c := range r.callers {
		callers.Go(func() { c.run(ctx) })
	}
	others.Go(func() { r.nemesis.run(ctx) })
	others.Go(func() { r.writeBack(ctx) })
	tick := time.NewTicker(showEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			fmt.Fprintf(r.Out, "%s [%s, seed %d]\n", r.figures(), r.store, r.seed)
		case <-ctx.Done():
		}
	}
	others.Wait() // the nemesis has repaired all that it did
	err := r.rig.awaitReady(context.Background(), recoverTimeout)
	callers.Wait()
	if err != nil {
		return fmt.Errorf("after all faults were over: %w", err)
	}
	return r.askForAll()
}

// writeBack uses the archive, if there is one; the effect shows in the items.
func (r *round) writeBack(ctx context.Context) {
	if r.rig.archive == nil {
		return
	}
	rnd := rand.New(rand.NewPCG(r.seed, 5))
	for ctx.Err() == nil {
		pause(ctx, time.Duration(500+rnd.IntN(4000))*time.Millisecond)
		d := r.rig.daemons[rnd.IntN(len(r.rig.daemons))]
		c, err := client.New(d.front.Addr, client.WithPatience(time.Second))
		if err != nil {
			return
		}
		do, name := c.Writeback, "writeback"
		if rnd.IntN(3) == 0 {
			do, name = func(ctx context.Context, filter string) (client.CopyResult, error) { return c.Restore(ctx, filter, "") }, "restore"
		}
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		if _, err := do(limited, forEver); err == nil {
			r.countFault(name)
		}
		cancel()
		c.Close()
	}
}

// askForAll asks every memory for every item once more, at one daemon after the other.
func (r *round) askForAll() error {
	asked := map[string]map[uint32]bool{}
	for _, c := range r.callers {
		for _, call := range c.calls {
			if asked[call.Filter] == nil {
				asked[call.Filter] = map[uint32]bool{}
			}
			for _, n := range call.Items {
				asked[call.Filter][n] = true
			}
		}
	}
	for m, daemons := range r.rig.memories {
		last, err := r.newCaller(fmt.Sprintf("last-%d", m+1), m, daemons, client.DoubtError, 99)
		if err != nil {
			return err
		}
		last.asker.Close()
		r.callers = append(r.callers, last)
		for _, filter := range []string{forEver, jobs, prints, forDays, churned} {
			items := slices.Sorted(maps.Keys(asked[batch{filter: filter}.key(m)]))
			for i := 0; len(items) > 0; i++ {
				d := daemons[i%len(daemons)]
				c, err := client.New(d.front.Addr, client.WithPatience(time.Minute))
				if err != nil {
					return err
				}
				size := min(finalBatch, len(items))
				last.asker, last.daemons = c, []*daemon{d}
				for _, look := range []bool{true, false} {
					told := problem.OutcomeUnknown // as on a connection that a fault has cut, and that nobody has used since
					for try := 0; try < 10 && told == problem.OutcomeUnknown; try++ {
						last.makeCall(context.Background(), batch{filter, items[:size]}, look)
						told = last.calls[len(last.calls)-1].Told
					}
					if told != "" {
						return fmt.Errorf("%s does not answer in the end, when all faults are over: %s", d.name, told)
					}
				}
				items = items[size:]
				c.Close()
			}
		}
	}
	return nil
}

// judge checks what the callers were told against the rule.
func (r *round) judge() *history.Report {
	h := r.history
	for _, c := range r.callers {
		h.Calls = append(h.Calls, c.calls...)
		for _, odd := range c.odd {
			r.fail("%s: %s", c.name, odd)
		}
	}
	h.Incarnations, h.UnknownIsNew = r.incarnations, r.inDoubt == "new" && inRedis(r.store)
	h.Tolerance = history.Tolerance{Early: 50 * time.Millisecond, Late: 2 * time.Second}
	if r.rig != nil {
		h.FalsePositives, h.OwnLife = map[string]int{}, map[string]bool{}
		for m := range r.rig.memories {
			h.FalsePositives[batch{filter: forEver}.key(m)] = falsePositives * btoi(r.growing() && r.store != "mysql")
			for _, filter := range []string{jobs, prints} {
				h.OwnLife[batch{filter: filter}.key(m)] = inRedis(r.store)
			}
		}
	}
	if n := r.nemesis; n != nil {
		h.Faults, h.Losses = n.faults, n.losses
	}
	if r.store == "embedded" && r.rig != nil {
		for _, d := range r.rig.daemons {
			h.Downs, h.Steps = append(h.Downs, d.downs...), append(h.Steps, d.steps...)
		}
	}
	return history.Check(h)
}
