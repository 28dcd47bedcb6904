//go:build unix

package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
)

func (n *nemesis) serverOf(e event) *redistest.Server {
	return n.rig.servers[e.target%len(n.rig.servers)]
}

func redisKill(ctx context.Context, n *nemesis, e event) bool { return killed(ctx, n.serverOf(e), e) }
func redisStop(ctx context.Context, n *nemesis, e event) bool { return halted(ctx, n.serverOf(e), e) }
func mysqlKill(ctx context.Context, n *nemesis, e event) bool { return killed(ctx, n.rig.mariadb, e) }
func mysqlStop(ctx context.Context, n *nemesis, e event) bool { return halted(ctx, n.rig.mariadb, e) }

func killed(ctx context.Context, s interface {
	Kill()
	Run()
}, e event) bool {
	s.Kill()
	pause(ctx, e.length/2)
	s.Run()
	return true
}

func halted(ctx context.Context, s interface{ Signal(os.Signal) }, e event) bool {
	s.Signal(syscall.SIGSTOP)
	pause(ctx, e.length)
	s.Signal(syscall.SIGCONT)
	return true
}

func slowLink(ctx context.Context, n *nemesis, e event) bool {
	link := n.linkOf(e)
	link.setDelay(time.Duration(e.target*5) * time.Millisecond)
	defer link.setDelay(0)
	pause(ctx, e.length)
	return true
}

func cutLink(ctx context.Context, n *nemesis, e event) bool {
	breakLink(ctx, n.linkOf(e), e)
	return true
}

func holdLink(ctx context.Context, n *nemesis, e event) bool {
	link := n.linkOf(e)
	link.interrupt()
	pause(ctx, e.length)
	if e.coin { // what was under way never arrives
		link.Break()
	}
	link.resume()
	return true
}

// redisUnplugged cuts off a daemon's own network.
func redisUnplugged(ctx context.Context, n *nemesis, e event) bool {
	d := n.daemonOf(e)
	if d.net == nil || d.net.unplug() != nil {
		return false
	}
	pause(ctx, e.length)
	return d.net.plug() == nil
}

func (n *nemesis) linkOf(e event) *proxy { return n.rig.links[e.target%len(n.rig.links)] }

func redisFull(ctx context.Context, n *nemesis, e event) bool {
	ctx = context.WithoutCancel(ctx)
	if n.rig.admin.ConfigSet(ctx, "maxmemory", "1").Err() != nil {
		return false
	}
	pause(ctx, e.length/4)
	for range 100 {
		if n.rig.admin.ConfigSet(ctx, "maxmemory", "0").Err() == nil {
			return true
		}
		pause(ctx, 100*time.Millisecond)
	}
	return false
}

func redisEmpty(ctx context.Context, n *nemesis, e event) bool {
	return n.lose(ctx, func() bool {
		if c, ok := n.rig.admin.(*redis.ClusterClient); ok && e.coin {
			return c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error { return m.FlushAll(ctx).Err() }) == nil
		}
		c := redis.NewClient(&redis.Options{Addr: n.serverOf(e).Addr})
		defer c.Close()
		return c.FlushAll(ctx).Err() == nil
	})
}

// failover makes the sentinels choose another master.
func failover(ctx context.Context, n *nemesis, e event) bool {
	if !n.replicated(ctx) {
		return false
	}
	old := n.master()
	if old == nil {
		return false
	}
	done := n.lose(ctx, func() bool {
		if e.coin {
			redistest.FailOver(n.rig.sentinel, old)
			defer redistest.Patient(n.rig.sentinel)
		} else if out, err := n.sentinel("failover"); err != nil || !strings.Contains(out, "OK") {
			return false
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end); pause(ctx, 50*time.Millisecond) {
			now := n.master()
			if now == nil || now == old {
				continue
			}
			// The old master accepts writes until the sentinel has told it.
			if role, err := cli(ctx, old, "role"); e.coin || err == nil && strings.HasPrefix(role, "slave") {
				return true
			}
		}
		return false
	})
	if e.coin {
		old.Run()
	}
	return done
}

// master returns the server that the sentinels name.
func (n *nemesis) master() *redistest.Server {
	out, err := n.sentinel("get-master-addr-by-name")
	fields := strings.Fields(out)
	if err != nil || len(fields) != 2 {
		return nil
	}
	for _, s := range n.rig.servers {
		if strings.HasSuffix(s.Addr, ":"+fields[1]) {
			return s
		}
	}
	return nil
}

func (n *nemesis) sentinel(command string) (string, error) {
	return cli(context.Background(), n.rig.sentinel, "sentinel", command, "mymaster")
}

// replicated waits until the master has its replica.
func (n *nemesis) replicated(ctx context.Context) bool {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		info, err := n.rig.admin.Info(ctx, "replication").Result()
		if out, _ := n.sentinel("replicas"); err == nil && strings.Contains(info, "state=online") && strings.Contains(out, "master-link-status\nok") {
			return true
		}
	}
	return false
}

// resynced is how long daemons may take to restore what Redis lost: the two minutes that the
// documents promise, and some more for a busy machine.
const resynced = 3 * time.Minute

// lose makes Redis lose data while every daemon is ready, and waits until each daemon has shown
// by a batch that the data is restored.
func (n *nemesis) lose(ctx context.Context, do func() bool) bool {
	if n.rig.awaitReady(ctx, time.Minute) != nil {
		return false
	}
	loss := history.Loss{Lives: map[string]int{}}
	for _, d := range n.rig.daemons {
		loss.Lives[d.name] = d.lives()
	}
	loss.From = n.elapsed()
	done := do()
	end := time.Now().Add(resynced)
	for i, d := range n.rig.daemons {
		if err := n.probe(context.WithoutCancel(ctx), i, end); err != nil {
			n.fail("%s does not answer again after redis has lost data: %v\n%s", d.name, err, tail(d.logName()))
		}
	}
	loss.To = n.elapsed()
	n.mu.Lock()
	n.losses = append(n.losses, loss)
	n.faults = append(n.faults, history.Fault{Name: "data lost, until all have answered", From: loss.From, To: loss.To})
	n.mu.Unlock()
	return done
}

// probe sends batches of its own items to a daemon, to both kinds, until they are accepted.
func (n *nemesis) probe(ctx context.Context, daemon int, end time.Time) error {
	d := n.rig.daemons[daemon]
	c, err := client.New(d.addr, client.WithHTTPClient(d.http()), client.WithPatience(0), client.WithTimeout(5*time.Second))
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		item := []string{fmt.Sprintf("probe/%d/%d", daemon, time.Now().UnixNano())}
		if _, err = c.Filter(ctx, forEver, item); err == nil {
			if _, err = c.Filter(ctx, forDays, item); err == nil {
				return nil
			}
		}
		if time.Now().After(end) {
			return err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// reshard moves slots from one master to another.
func reshard(ctx context.Context, n *nemesis, e event) bool {
	count := len(n.rig.servers)
	from, to := e.target%count, (e.target+1+btoi(e.coin))%count
	if from == to {
		to = (to + 1) % count
	}
	var ids [2]string
	for i, s := range []int{from, to} {
		id, err := cli(ctx, n.rig.servers[s], "cluster", "myid")
		if err != nil {
			return false
		}
		ids[i] = id
	}
	out, err := cli(ctx, nil, "--cluster", "reshard", n.rig.servers[to].Addr, "--cluster-from", ids[0], "--cluster-to", ids[1],
		"--cluster-slots", fmt.Sprint(100+e.target*10), "--cluster-yes", "--cluster-timeout", "5000")
	if err != nil || strings.Contains(out, "[ERR]") {
		_, _ = cli(ctx, nil, "--cluster", "fix", n.rig.servers[to].Addr) // slots that were being moved
		return false
	}
	return true
}

// cli runs redis-cli against a server; if s is nil, args name the server.
func cli(ctx context.Context, s *redistest.Server, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if s != nil {
		args = append([]string{"-p", s.Addr[strings.LastIndex(s.Addr, ":")+1:]}, args...)
	}
	out, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
