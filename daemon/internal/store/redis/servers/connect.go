// Package servers has the connections to a Redis, be it one server, a master with its
// sentinels, or a cluster: what is demanded of the servers, what their errors mean, and what
// became of a command whose connection broke. It knows nothing about what is stored there.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// Options say which Redis to use, and how to log in. They are those of the settings.
type Options struct {
	Addrs      []string
	Username   string
	Password   string
	DB         int
	TLS        *tlsdial.Dialer // nil: connections are plain
	MasterName string          // of sentinels
	// Timeout of a connection attempt, and of each read and write. Default 5 s.
	Timeout time.Duration
	// Fsync refuses servers that answer before they have synced.
	Fsync bool
	// Replicas is how many replicas must have a batch before it is answered; 0: none. Not for a
	// cluster.
	Replicas int
}

const defaultTimeout = 5 * time.Second

// Servers are the servers of one Redis, in its present topology. They may be used by several
// goroutines at once.
type Servers struct {
	Batches redis.UniversalClient // batches travel here, to servers that are in sync
	Admin   redis.UniversalClient // everything else
	opt     Options
}

// Dial makes the clients for what is at the addresses: one server, sentinels, or a cluster.
// onConnect is called for every connection of the client for batches. Dial itself connects only
// to find out which of the three they are.
func Dial(ctx context.Context, o Options, onConnect func(context.Context, *redis.Conn) error) (*Servers, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	u := &redis.UniversalOptions{
		Addrs: o.Addrs, Username: o.Username, Password: o.Password, DB: o.DB, MasterName: o.MasterName,
		SentinelUsername: o.Username, SentinelPassword: o.Password,
		Protocol: 2, DisableIdentity: true, FailingTimeoutSeconds: 1,
		DialTimeout: o.Timeout, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout,
		DialerRetries: 1, // callers are told at once, and the resyncer tries again
		MaxRetries:    -1, MaxRedirects: 8,
		ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
	}
	if o.TLS != nil {
		u.Dialer = o.TLS.DialContext
	}
	if o.MasterName == "" {
		cluster, err := isCluster(ctx, *u)
		if err != nil {
			return nil, err
		}
		u.IsClusterMode = cluster
		switch {
		case !cluster && len(o.Addrs) > 1:
			return nil, fmt.Errorf("redis %s: is not a cluster, and %d addresses are given\nhint: name one, or set redis.master_name if they are sentinels", o.Addrs[0], len(o.Addrs))
		case cluster && o.DB != 0:
			return nil, fmt.Errorf("redis.db %d: a cluster has database 0 only", o.DB)
		}
	}
	admin := redis.NewUniversalClient(u)
	u.OnConnect = onConnect
	s := &Servers{Batches: redis.NewUniversalClient(u), Admin: admin, opt: o}
	if _, cluster := s.Batches.(*redis.ClusterClient); cluster && o.Replicas > 0 {
		return nil, errors.Join(fmt.Errorf("redis.replicas %d: want 0: it is for one master with replicas, and these addrs are a cluster", o.Replicas), s.Close())
	}
	return s, nil
}

// Timeout returns the timeout of each command.
func (s *Servers) Timeout() time.Duration { return s.opt.Timeout }

// Close closes the clients.
func (s *Servers) Close() error { return errors.Join(s.Batches.Close(), s.Admin.Close()) }

// Explain says what an error of these servers means to an operator.
func (s *Servers) Explain(err error) error { return explain(strings.Join(s.opt.Addrs, ","), err) }

// isCluster asks the first address that answers.
func isCluster(ctx context.Context, u redis.UniversalOptions) (bool, error) {
	var errs []error
	for _, addr := range u.Addrs {
		o := u.Simple()
		o.Addr, o.DB = addr, 0
		c := redis.NewClient(o)
		info, err := c.Info(ctx, "cluster").Result()
		_ = c.Close()
		if err == nil {
			return strings.Contains(info, "cluster_enabled:1"), nil
		}
		errs = append(errs, explain(addr, err))
	}
	return false, errors.Join(errs...)
}

// explain says what an error of Redis means to an operator.
func explain(addr string, err error) error {
	text := err.Error()
	hint := tlsdial.Hint("redis", err)
	switch {
	case hint != "":
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "NOAUTH"), strings.Contains(text, "without any password"):
		hint = "check redis.username and redis.password_file"
	case strings.HasPrefix(text, "NOPERM"):
		hint = "the ACL user needs the keys urifilter:* and the commands of docs/redis.md"
	case errors.As(err, new(*net.DNSError)):
		hint = "check redis.addrs"
	case isDial(err):
		hint = "is Redis running there? (systemctl status redis-server)"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		hint = "the server ended the connection at once: see whether it wants TLS (redis.tls), and a certificate of its clients (redis.tls_cert_file)"
	case strings.Contains(text, "redis: can't parse"), strings.Contains(text, "invalid reply"):
		hint = "what listens there does not speak Redis's protocol; check redis.addrs and redis.tls"
	}
	err = fmt.Errorf("redis %s: %w", addr, err)
	if hint != "" {
		err = fmt.Errorf("%w\nhint: %s", err, hint)
	}
	return err
}

// isDial tells whether err occurred before anything was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, new(*tlsdial.HandshakeError))
}

// Masters runs do once for each server that holds data, for several of them at once.
func (s *Servers) Masters(ctx context.Context, do func(ctx context.Context, c *redis.Client) error) error {
	switch c := s.Admin.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, c)
	default:
		return fmt.Errorf("redis client of type %T", c)
	}
}

// checkPolicy refuses a server that may evict keys: a filter with an evicted stripe has
// forgotten items, and nobody would notice at once.
func checkPolicy(ctx context.Context, c *redis.Client) error {
	got, err := c.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil {
		return nil // managed servers refuse CONFIG; resyncing finds what was evicted
	}
	if p := got["maxmemory-policy"]; p != "" && p != "noeviction" {
		return fmt.Errorf("redis %s: maxmemory-policy %s lets it evict bit-maps\nhint: redis-cli -u redis://%s CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
			c.Options().Addr, p, c.Options().Addr)
	}
	return nil
}

// AllowFull is the first line of a script that Redis runs at its maxmemory, too. It is for what daemons tell
// each other, and for what leads to memory being freed: the items themselves are refused then.
const AllowFull = "#!lua flags=allow-oom\n"

const always = AllowFull + "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"

// Always sends a short command on a key, also to a Redis at its maxmemory.
func Always(ctx context.Context, c redis.Cmdable, command, key string, args ...any) *redis.Cmd {
	return c.Eval(ctx, always, []string{key}, append([]any{command}, args...)...)
}

// maxTags bounds the search for hash tags. A master that owns a single one of the 16,384 slots of a
// cluster is found with a probability of 98 %.
const maxTags = 1 << 16

// OnEach calls key with hash tags such as "{7}", and returns of its results one for each master: of a
// cluster, keys of which each master that owns slots has one.
func (s *Servers) OnEach(ctx context.Context, key func(tag string) string) (keys []string, err error) {
	cluster, ok := s.Admin.(*redis.ClusterClient)
	if !ok {
		return []string{key("{0}")}, nil
	}
	var mu sync.Mutex
	without := map[string]bool{} // the addresses of masters that have no key yet
	err = s.Masters(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		without[c.Options().Addr] = true
		return nil
	})
	for n := 0; err == nil && len(without) > 0 && n < maxTags; n++ {
		k := key("{" + strconv.Itoa(n) + "}")
		master, err := cluster.MasterForKey(ctx, k)
		if err != nil {
			return nil, err
		}
		if addr := master.Options().Addr; without[addr] {
			delete(without, addr)
			keys = append(keys, k)
		}
	}
	return keys, err
}

var (
	// ErrNotSynced refuses a connection for batches to a server that is not yet resynced.
	ErrNotSynced = errors.New("is not yet resynced")
	// ErrSentinel is returned by MasterRunID for a sentinel, which holds no data.
	ErrSentinel = errors.New("is a sentinel")
	// errReplica refuses a connection to a server that is not a master: if it becomes one
	// without the data of the old master, a new connection shows that.
	errReplica = errors.New("is a replica")
)

// MasterRunID returns the run id of a server that is a master.
func MasterRunID(ctx context.Context, c interface {
	Info(ctx context.Context, sections ...string) *redis.StringCmd
}) (string, error) {
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	if field(info, "redis_mode") == "sentinel" {
		return "", ErrSentinel
	}
	replication, err := c.Info(ctx, "replication").Result()
	if err != nil {
		return "", err
	}
	if field(replication, "role") != "master" {
		return "", errReplica
	}
	id := field(info, "run_id")
	if id == "" {
		return "", errors.New("INFO server names no run_id: what listens there is not Redis or Valkey")
	}
	return id, nil
}

// RunIDs returns the run ids of all masters, and refuses a master that may lose what it
// acknowledges.
func (s *Servers) RunIDs(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var ids []string
	err := s.Masters(ctx, func(ctx context.Context, c *redis.Client) error {
		id, err := MasterRunID(ctx, c)
		if err == nil {
			err = checkPolicy(ctx, c)
		}
		if err == nil && s.opt.Fsync {
			err = checkDurability(ctx, c)
		}
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, id)
		return err
	})
	slices.Sort(ids)
	return ids, err
}

// field reads a field of INFO's answer.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// replicaWait bounds how long a batch waits for replicas. A replica that answers needs one
// round trip.
const replicaWait = time.Second

// ErrTooFewReplicas means that a batch was carried out by a master that may be cut off from its
// replicas, one of which may already be the master for others.
var ErrTooFewReplicas = errors.New("too few replicas have confirmed the batch (redis.replicas)")

// Confirm adds the wait for replicas to a pipeline that changes something. The wait counts what
// its connection has sent. Call the function that it returns once the pipeline has been sent
// without an error: it returns an error if too few replicas have the changes.
func (s *Servers) Confirm(ctx context.Context, p redis.Pipeliner) (check func() error, err error) {
	want := s.opt.Replicas
	if want == 0 {
		return func() error { return nil }, nil
	}
	// It never takes longer than other commands: the timeout of the connection applies.
	cmd := redis.NewIntCmd(ctx, "wait", want, min(replicaWait, s.opt.Timeout/2).Milliseconds())
	return func() error {
		if got := cmd.Val(); got < int64(want) {
			return fmt.Errorf("%w: %d of %d", ErrTooFewReplicas, got, want)
		}
		return nil
	}, p.Process(ctx, cmd)
}
