//go:build unix

package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/chaos/wallclock"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Filters of a round. The capacity of the one that does not grow is so far above what is sent
// that no false positive is expected.
const (
	forEver  = "uri"     // bloom; in every second round it grows, again and again
	jobs     = "jobs"    // exact
	prints   = "prints"  // bloom, in Redis with layout: fingerprints
	forDays  = "days"    // timing, longer than any campaign and any step of a clock
	forShort = "seconds" // timing
	churned  = "churned" // bloom, dropped and made again

	daysExpire  = 90 * 24 * time.Hour
	shortExpire = 4 * time.Second
)

// churnedSpec returns what churned is.
func churnedSpec(store string) client.FilterSpec {
	if store == "mysql" {
		return client.FilterSpec{Kind: "exact", Store: store}
	}
	return client.FilterSpec{Kind: "bloom", Capacity: 200_000, ErrorRate: 1e-6}
}

// rig has the servers of a round.
type rig struct {
	store    string
	daemons  []*daemon
	links    []*proxy // of each daemon to Redis or MariaDB, if that is one server; else none
	servers  []*redistest.Server
	mariadb  *mysqltest.Server // nil: there is none
	sentinel *redistest.Server
	archive  *proxy   // nil: there is none
	ways     []*proxy // to the archive, from the daemons' own networks
	admin    redis.UniversalClient
	// memories are the groups of daemons that answer as one: all of those that share Redis,
	// each by itself otherwise.
	memories [][]*daemon
}

// inRedis reports whether the daemons share Redis.
func inRedis(store string) bool { return store != "embedded" && store != "mysql" }

// falsePositives is more than a filter that grows is likely to have: its rate of one in a million
// holds for full layers, and all of its layers but the last are full.
const falsePositives = 3

// size returns a part of the settings of forEver.
func size(growing bool) string {
	if growing {
		return "capacity: 1000, on_full: grow"
	}
	return "capacity: 1500000, on_full: warn"
}

// Settings that make mirrors of 4 MiB tight: two empty filters take nearly all of them.
const (
	mirrorBytes = "4MiB"
	ballast     = ", {id: 8, name: taken, capacity: 1050000, on_full: warn}, {id: 9, name: large, capacity: 20000000, on_full: warn}"
	wholeMirror = 2 // the daemon whose mirrors are not bounded
)

// newRig starts the servers. The daemons may not be ready yet when it returns.
func newRig(t testing.TB, store string, binaries []string, r *round) (*rig, error) {
	g := &rig{store: store}
	count := 3
	var addrs []string
	more := map[bool]string{true: ballast}[r.bounded]
	digest := map[bool]string{true: ", digest: 64"}[store == "embedded" && r.growing()]
	layout := map[bool]string{true: ", layout: fingerprints"}[inRedis(store)]
	filters := "[{id: 1, name: uri, error_rate: 0.000001, " + size(r.growing()) + "}, {id: 4, name: jobs, kind: exact" + digest + "}, {id: 5, name: prints, capacity: 1500000, error_rate: 0.000001" + layout + "}, {id: 2, name: days, kind: timing, expire: 2160h}, {id: 3, name: seconds, kind: timing, expire: 4s}" + more + "]"
	env := []string{
		"URIFILTER_CHECKPOINT_BYTES=256KiB", "URIFILTER_LOG_LEVEL=info", "URIFILTER_SHUTDOWN_TIMEOUT=5s",
	}
	switch store {
	case "embedded":
		count = 4
	case "redis":
		s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction")
		g.servers, addrs = []*redistest.Server{s}, []string{s.Addr}
		g.admin = redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	case "mysql":
		s := mysqltest.Start(t)
		name := s.Database("select, insert, update, delete, create, drop")
		password := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(password, []byte(mysqltest.Password), 0o600); err != nil {
			return nil, err
		}
		g.mariadb, addrs = s, []string{s.Addr}
		filters = ""
		for _, name := range []string{forEver, forDays, jobs, prints} { // all that do not expire
			filters += ", {name: " + name + ", kind: exact, store: mysql}"
		}
		filters = "[" + filters[2:] + "]"
		env = append(env, "URIFILTER_MYSQL_USER="+name, "URIFILTER_MYSQL_DATABASE="+name, "URIFILTER_MYSQL_PASSWORD_FILE="+password)
	case "sentinel":
		sentinel, master, replica := redistest.Sentinels(t, nil)
		g.servers, g.sentinel, addrs = []*redistest.Server{master, replica}, sentinel, []string{sentinel.Addr}
		env = append(env, "URIFILTER_REDIS_MASTER_NAME=mymaster")
		g.admin = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: addrs, MaxRetries: -1})
	case "cluster":
		g.servers = redistest.Cluster(t, nil)
		for _, s := range g.servers {
			addrs = append(addrs, s.Addr)
		}
		g.admin = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	default:
		return nil, fmt.Errorf("store %q: want embedded, redis, sentinel, cluster or mysql", store)
	}
	env = append(env, "URIFILTER_FILTERS="+filters)
	if inRedis(store) {
		env = append(env, "URIFILTER_STORE=redis", "URIFILTER_REDIS_IN_DOUBT="+r.inDoubt)
	}
	if r.campaign.has("archive") && store != "mysql" { // whose filters no archive has
		addr := mongotest.New(t, mongotest.Options{}).Addr()
		var err error
		if g.archive, err = newProxy("127.0.0.1", func() (net.Conn, error) { return (*netns)(nil).dial(addr) }, r.seed); err != nil {
			return nil, err
		}
	}
	for i := range count {
		d := &daemon{
			name: fmt.Sprintf("d%d", i+1), addr: testserver.Free(t), dir: t.TempDir(), binaries: binaries, first: i,
			env: append([]string{}, env...), since: r.elapsed, ended: make(chan struct{}),
		}
		if r.campaign.has("clock") {
			d.clock = filepath.Join(d.dir, "clock")
			if err := wallclock.Set(d.clock, 0); err != nil {
				return nil, err
			}
		}
		reach := addrs
		if store == "redis" || store == "mysql" {
			host := "127.0.0.1"
			if r.campaign.has("redis-net") && store == "redis" {
				var err error
				if d.net, err = newNetns(r.seed, i); err == nil {
					host = d.net.here
				} else if i == 0 {
					fmt.Fprintln(r.Out, "no networks of their own for the daemons:", err)
				}
			}
			link, err := newProxy(host, func() (net.Conn, error) { return (*netns)(nil).dial(addrs[0]) }, r.seed+uint64(i))
			if err != nil {
				return nil, err
			}
			g.links = append(g.links, link)
			reach = []string{link.Addr}
		}
		if g.archive != nil {
			at := g.archive.Addr
			if d.net != nil { // whose loopback is its own
				way, err := newProxy(d.net.here, func() (net.Conn, error) { return (*netns)(nil).dial(g.archive.Addr) }, r.seed+200+uint64(i))
				if err != nil {
					return nil, err
				}
				g.ways, at = append(g.ways, way), way.Addr
			}
			// An embedded daemon has an archive of its own.
			d.env = append(d.env, "URIFILTER_MONGODB_URI=mongodb://"+at+"/", fmt.Sprintf("URIFILTER_MONGODB_DATABASE=archive%d", i*btoi(store == "embedded")))
		}
		if inRedis(store) {
			d.env = append(d.env, "URIFILTER_REDIS_ADDRS="+strings.Join(reach, ","))
		} else if store == "mysql" {
			d.env = append(d.env, "URIFILTER_MYSQL_ADDR="+reach[0])
		}
		if r.bounded && i != wholeMirror {
			d.env = append(d.env, "URIFILTER_REDIS_MIRROR_BYTES="+mirrorBytes)
		}
		var err error
		if d.front, err = newProxy("127.0.0.1", func() (net.Conn, error) { return d.net.dial(d.addr) }, r.seed+100+uint64(i)); err != nil {
			return nil, err
		}
		at := testserver.Free(t)
		if d.resp, err = newProxy("127.0.0.1", func() (net.Conn, error) { return d.net.dial(at) }, r.seed+300+uint64(i)); err != nil {
			return nil, err
		}
		d.env = append(d.env, "URIFILTER_RESP_LISTEN="+at)
		g.daemons = append(g.daemons, d)
		if store == "embedded" {
			g.memories = append(g.memories, []*daemon{d})
		}
		go d.supervise()
	}
	if store != "embedded" {
		g.memories = [][]*daemon{g.daemons}
	}
	return g, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// awaitReady waits until all daemons are ready; its error names one that is not.
func (g *rig) awaitReady(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, d := range g.daemons {
		for !d.ready(ctx) {
			if ctx.Err() != nil {
				return fmt.Errorf("%s is not ready after %s; its log ends with:\n%s", d.name, limit, tail(d.logName()))
			}
			pause(ctx, 20*time.Millisecond)
		}
	}
	return nil
}

func tail(file string) string {
	text, _ := os.ReadFile(file)
	return string(text[max(0, len(text)-3000):])
}

// addresses returns the addresses of the daemons of a memory.
func addresses(daemons []*daemon) string {
	var all []string
	for _, d := range daemons {
		all = append(all, d.front.Addr)
	}
	return strings.Join(all, ",")
}

// close stops everything, and returns an error for each daemon that does not end as it should.
func (g *rig) close() []error {
	var wrong []error
	for _, d := range g.daemons {
		if err := d.finish(); err != nil {
			wrong = append(wrong, err)
		}
		d.front.close()
		d.resp.close()
		if d.net != nil {
			d.net.close()
		}
	}
	for _, l := range slices.Concat(g.links, g.ways) {
		l.close()
	}
	if g.archive != nil {
		g.archive.close()
	}
	if g.admin != nil {
		_ = g.admin.Close()
	}
	return wrong
}
