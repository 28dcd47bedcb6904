//go:build unix

package chaos

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
)

// killPause is how long a killed daemon may take to become ready before it is killed again.
const killPause = 10 * time.Second

func kill(ctx context.Context, n *nemesis, e event) bool {
	d := n.daemonOf(e)
	down := e.length / 4
	d.end(syscall.SIGKILL, down)
	pause(ctx, down)
	// Half of the time the next kill may come while it starts; else it must have become ready.
	for end := time.Now().Add(killPause); e.coin && time.Now().Before(end) && ctx.Err() == nil && !d.ready(ctx); {
		pause(ctx, 20*time.Millisecond)
	}
	pause(ctx, e.length/8)
	return true
}

func term(ctx context.Context, n *nemesis, e event) bool {
	d := n.daemonOf(e)
	d.end(syscall.SIGTERM, e.length/4)
	pause(ctx, e.length)
	return true
}

func halt(ctx context.Context, n *nemesis, e event) bool {
	d := n.daemonOf(e)
	d.halt(ctx, e.length)
	return true
}

func cut(ctx context.Context, n *nemesis, e event) bool {
	d := n.daemonOf(e)
	breakLink(ctx, []*proxy{d.front, d.resp}[e.target/12%2], e)
	return true
}

// breakLink breaks connections for a while, after some bytes or at once.
func breakLink(ctx context.Context, p *proxy, e event) {
	if e.coin {
		p.setCuts(true)
		defer p.setCuts(false)
	}
	end := time.Now().Add(e.length)
	for time.Now().Before(end) && ctx.Err() == nil {
		p.Break()
		pause(ctx, max(e.length/5, 20*time.Millisecond))
	}
}

// maxOff bounds how far off a clock may be, so that items to be remembered for days never
// expire.
const maxOff = 30 * 24 * time.Hour

// stepClock sets a daemon's wall clock, seconds or hours from where it was. Two seconds are the
// least: the daemon need not record a step of up to one.
func stepClock(ctx context.Context, n *nemesis, e event) bool {
	d := n.daemonOf(e)
	step := 2*time.Second + e.length.Truncate(time.Second)
	if e.target%3 == 0 {
		step *= 24 * 60
	}
	if e.coin {
		step = -step
	}
	n.mu.Lock()
	off := n.wall[d.name] + step
	if off > maxOff || off < -maxOff {
		off, step = 0, -n.wall[d.name]
	}
	n.wall[d.name] = off
	n.faults = append(n.faults, history.Fault{Name: "clock stepped by " + step.String(), Target: d.name, From: n.elapsed(), To: n.elapsed()})
	n.mu.Unlock()
	if err := d.setClock(off, step); err != nil {
		return false
	}
	pause(ctx, e.length/8)
	return true
}

func archiveAway(ctx context.Context, n *nemesis, e event) bool {
	if n.rig.archive == nil {
		return false
	}
	n.rig.archive.interrupt()
	if e.coin {
		n.rig.archive.Break()
	}
	pause(ctx, e.length)
	n.rig.archive.resume()
	return true
}

// dropGrace is how long daemons may take to learn that another one dropped a filter, on a busy
// machine: they look once a second.
const dropGrace = 10 * time.Second

// drop drops a filter and creates it again under its name.
func drop(ctx context.Context, n *nemesis, e event) bool {
	dropped := false
	return n.renew(ctx, e, churned, dropGrace, func(ctx context.Context, c *client.Client) bool {
		if !dropped {
			err := c.DropFilter(ctx, churned)
			var answered *client.Error
			dropped = err == nil || errors.As(err, &answered) && answered.ErrorCode == "unknown_filter"
			return false
		}
		_, _, err := c.CreateFilter(ctx, churned, churnedSpec(n.store))
		return err == nil
	})
}

// clearFilter clears a filter, which all daemons know when it is answered.
func clearFilter(ctx context.Context, n *nemesis, e event) bool {
	filter := []string{churned, jobs, prints}[e.target%3]
	return n.renew(ctx, e, filter, 0, func(ctx context.Context, c *client.Client) bool {
		_, err := c.ClearFilter(ctx, filter)
		return err == nil
	})
}

// renew begins a new incarnation of a filter: it takes steps until one says that it was the last. Other daemons may take
// a grace to learn of it. Half of the time a daemon is killed at the same time.
func (n *nemesis) renew(ctx context.Context, e event, filter string, grace time.Duration, step func(context.Context, *client.Client) (last bool)) bool {
	memory := e.target % len(n.rig.memories)
	daemons := n.rig.memories[memory]
	if n.rig.awaitReady(ctx, time.Minute) != nil {
		return false
	}
	if e.coin && len(daemons) > 1 {
		daemons[e.target%len(daemons)].end(syscall.SIGKILL, e.length/4)
	}
	c, err := client.New(addresses(daemons), client.WithPatience(20*time.Second), client.WithTimeout(20*time.Second))
	if err != nil {
		return false
	}
	defer c.Close()
	from := n.elapsed()
	done := false
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && !done; {
		done = step(context.WithoutCancel(ctx), c)
	}
	if len(daemons) > 1 {
		pause(context.WithoutCancel(ctx), grace)
	}
	n.recreated(batch{filter: filter}.key(memory), from)
	if done = done && (n.rig.awaitReady(ctx, time.Minute) == nil || ctx.Err() != nil); !done {
		n.fail("%s of %s does not succeed", e.name, filter)
	}
	return done
}

// recreated notes a new incarnation of a filter that was dropped or cleared at from.
func (n *nemesis) recreated(filter string, from time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.elapsed()
	all := n.incarnations[filter]
	if len(all) == 0 {
		all = []history.Incarnation{{}}
	}
	all[len(all)-1].End, all[len(all)-1].Latest = from, now
	n.incarnations[filter] = append(all, history.Incarnation{Earliest: from, Begin: now, End: history.Forever, Latest: history.Forever})
}
