package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/chaos/wallclock"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// The two sides of the partition; see RFC 2544 for the network.
const (
	oldSide = "198.18.255.1" // the master at first, a sentinel, a daemon
	newSide = "198.18.255.2" // two replicas, two sentinels, a daemon
)

// side is a machine of its own: processes in a network namespace.
type side struct {
	*netns
	t    *testing.T
	addr string
}

var pairs atomic.Int64 // of machines that this process has made

// newSides makes two machines that are joined by a cable. Only root can.
func newSides(t *testing.T) (old, fresh *side) {
	t.Helper()
	pair := fmt.Sprintf("%d-%d", os.Getpid(), pairs.Add(1))
	old = &side{&netns{name: "split-old-" + pair}, t, oldSide}
	fresh = &side{&netns{name: "split-new-" + pair}, t, newSide}
	t.Cleanup(func() { old.close(); fresh.close() })
	for _, line := range []string{
		"netns add " + old.name, "netns add " + fresh.name,
		"link add cable netns " + old.name + " type veth peer name cable netns " + fresh.name,
	} {
		if err := ip(line); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*side{old, fresh} {
		for _, line := range []string{"link set lo up", "addr add " + s.addr + "/30 dev cable", "link set cable up"} {
			if err := ip("-n " + s.name + " " + line); err != nil {
				t.Fatal(err)
			}
		}
	}
	return old, fresh
}

// part drops all packets between the two; do is add, or del to rejoin them.
func part(old, fresh *side, do string) error {
	if err := ip("-n " + old.name + " route " + do + " blackhole " + fresh.addr + "/32"); err != nil {
		return err
	}
	return ip("-n " + fresh.name + " route " + do + " blackhole " + old.addr + "/32")
}

// server starts a redis-server on the machine; a file of settings comes first in args.
func (s *side) server(port int, args ...string) {
	s.t.Helper()
	dir := s.t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := s.command("redis-server", append(args, "--port", fmt.Sprint(port), "--bind", s.addr, "--protected-mode", "no", "--dir", dir)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s.until(fmt.Sprintf("redis at %s:%d", s.addr, port), func() bool { return strings.Contains(s.cli(port, "ping"), "PONG") })
}

func (s *side) cli(port int, args ...string) string {
	out, _ := s.command("redis-cli", append([]string{"-h", s.addr, "-p", fmt.Sprint(port)}, args...)...).CombinedOutput()
	return string(out)
}

func (s *side) until(what string, is func() bool) {
	s.t.Helper()
	testserver.Await(s.t, what, is)
}

func (s *side) sentinel(port, downAfter int) {
	s.t.Helper()
	conf := filepath.Join(s.t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor mymaster %s 6379 2\nsentinel down-after-milliseconds mymaster %d\nsentinel failover-timeout mymaster 6000\n", oldSide, downAfter)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.server(port, conf, "--sentinel")
}

func (s *side) daemon(binary string, replicas int, since func() time.Duration) *daemon {
	d := &daemon{
		name: s.name, addr: "127.0.0.1:8000", dir: s.t.TempDir(), binaries: []string{binary}, net: s.netns, since: since, ended: make(chan struct{}),
		env: []string{
			"URIFILTER_STORE=redis", "URIFILTER_REDIS_MASTER_NAME=mymaster", fmt.Sprint("URIFILTER_REDIS_REPLICAS=", replicas),
			"URIFILTER_REDIS_ADDRS=" + oldSide + ":26379," + newSide + ":26379," + newSide + ":26380",
			"URIFILTER_FILTERS=[{id: 1, name: uri, capacity: 1500000, error_rate: 0.000001}]",
		},
	}
	go d.supervise()
	s.t.Cleanup(func() { _ = d.finish() })
	s.until(s.name+" is ready", func() bool { return d.ready(context.Background()) })
	return d
}

// crawler is one of two, one on each side, that ask for the same links at the same time.
// Each repeats the batches that were refused until they are answered.
type crawler struct {
	d     *daemon
	calls []history.Call
	since func() time.Duration
}

const (
	splitBatch = 20
	splitEvery = 50 * time.Millisecond
)

func (c *crawler) run(ctx context.Context) error {
	cl, err := client.New(c.d.addr, client.WithHTTPClient(c.d.http()), client.WithPatience(0), client.WithTimeout(4*time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	var again []uint32 // batches, by number
	for next := uint32(0); ctx.Err() == nil; {
		now := uint32(c.since() / splitEvery)
		switch {
		case next < now:
			if !c.ask(cl, next) {
				again = append(again, next)
			}
			next++
		case len(again) > 0:
			if c.ask(cl, again[0]) {
				again = again[1:]
			} else {
				pause(ctx, splitEvery)
			}
		default:
			pause(ctx, splitEvery/10)
		}
	}
	for _, n := range again {
		for !c.ask(cl, n) {
			if c.since() > 10*time.Minute {
				return fmt.Errorf("%s does not answer", c.d.name)
			}
			pause(context.Background(), splitEvery)
		}
	}
	return nil
}

func (c *crawler) ask(cl *client.Client, batch uint32) bool {
	b := make([]string, splitBatch)
	call := history.Call{Caller: c.d.name, Daemon: c.d.name, Filter: forEver, Outcomes: make([]history.Outcome, splitBatch), Invoke: c.since()}
	for i := range b {
		call.Items = append(call.Items, batch*splitBatch+uint32(i))
		b[i] = itemText(0, call.Items[i])
	}
	fresh, err := cl.Filter(context.Background(), forEver, b)
	call.Return = c.since()
	place(call.Outcomes, b, fresh, history.New, history.Seen)
	if err != nil {
		o := history.Refused
		if client.InDoubt(err) {
			o = history.Unknown
		}
		for i := range call.Outcomes {
			call.Outcomes[i] = o
		}
		call.Told = err.Error()
	}
	c.calls = append(c.calls, call)
	return err == nil
}

// split parts the network for a while. It returns the report, whether a daemon warned, and how
// many items each side answered during the partition.
func split(t *testing.T, binary string, length time.Duration, replicas, downAfter int, settings ...string) (report *history.Report, warned bool, served [2]int) {
	t.Helper()
	old, fresh := newSides(t)
	settings = append(settings, "--save", "", "--repl-timeout", "60")
	old.server(6379, settings...)
	for _, port := range []int{6379, 6380} {
		fresh.server(port, append(settings, "--replicaof", oldSide, "6379")...)
	}
	old.sentinel(26379, downAfter)
	fresh.sentinel(26379, downAfter)
	fresh.sentinel(26380, downAfter)
	fresh.until("replicas and sentinels know each other", func() bool {
		seen := fresh.cli(26379, "sentinel", "master", "mymaster") + fresh.cli(26380, "sentinel", "master", "mymaster") + old.cli(26379, "sentinel", "master", "mymaster")
		return strings.Count(seen, "num-slaves\n2") == 3 && strings.Count(seen, "num-other-sentinels\n2") == 3 &&
			strings.Contains(old.cli(6379, "info", "replication"), "connected_slaves:2")
	})
	start := time.Now()
	since := func() time.Duration { return time.Since(start) }
	crawlers := []*crawler{{d: old.daemon(binary, replicas, since)}, {d: fresh.daemon(binary, replicas, since)}}
	start = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	for _, c := range crawlers {
		c.since = func() time.Duration { return time.Since(start) }
		work.Go(func() {
			if err := c.run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	pause(ctx, 3*time.Second) // part of the fault, like its length
	from := time.Since(start)
	if err := part(old, fresh, "add"); err != nil {
		t.Fatal(err)
	}
	pause(ctx, length)
	// The sentinels may be divided over who leads, and then try again after twice the failover-timeout.
	fresh.until("the sentinels have elected a new master", func() bool {
		return strings.HasPrefix(fresh.cli(26379, "sentinel", "get-master-addr-by-name", "mymaster"), newSide)
	})
	to := time.Since(start)
	if err := part(old, fresh, "del"); err != nil {
		t.Fatal(err)
	}
	old.until("the old master is a replica", func() bool { return strings.HasPrefix(old.cli(6379, "role"), "slave") })
	for _, c := range crawlers {
		old.until(c.d.name+" is ready", func() bool { return c.d.ready(ctx) })
	}
	cancel()
	work.Wait()
	h := &history.History{}
	for i, c := range crawlers {
		h.Calls = append(h.Calls, c.calls...)
		for _, call := range c.calls {
			if call.Told == "" && call.Invoke > from && call.Return < to {
				served[i] += len(call.Items)
			}
		}
		log, err := os.ReadFile(c.d.logName())
		if err != nil {
			t.Fatal(err)
		}
		warned = warned || strings.Contains(string(log), "a master that is cut off from its replicas goes on")
	}
	return history.Check(h), warned, served
}

// Sentinels elect a new master while the old one, its daemon and their callers are cut off.
func TestSystemSplitBrain(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"redis-server", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatal(err)
		}
	}
	binary, _, err := wallclock.Build(t.TempDir(), "", false)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		replicas  int // the setting of the daemons
		downAfter int // ms
		settings  []string
		warned    bool
	}{
		"as redis is":   {0, 3000, nil, true},
		"servers alone": {0, 10_000, []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "5"}, false},
		"daemons alone": {1, 3000, nil, false},
		"both":          {1, 10_000, []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "5"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			r, warned, served := split(t, binary, 30*time.Second, c.replicas, c.downAfter, c.settings...)
			rules := r.Rules()
			t.Logf("%d items: new twice %d, new for nobody %d, seen before new %d, forgotten %d; items answered during the partition: %d at the old side, %d at the new one",
				r.Items, rules[history.NewTwice], rules[history.NewForNobody], rules[history.SeenBeforeNew], rules[history.Forgotten], served[0], served[1])
			if broken := len(r.Violations); c.replicas > 0 && broken > 0 {
				t.Errorf("%d items break the rule", broken)
			}
			if warned != c.warned {
				t.Errorf("warned %v, want %v", warned, c.warned)
			}
		})
	}
}
