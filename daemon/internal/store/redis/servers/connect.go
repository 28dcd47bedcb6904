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
	"strings"
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
		PipelinePoolSize: -1, // one pool
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
	var dns *net.DNSError
	switch {
	case hint != "":
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "NOAUTH"), strings.Contains(text, "without any password"):
		hint = "check redis.username and redis.password_file"
	case strings.HasPrefix(text, "NOPERM"):
		hint = "the ACL user needs the keys urifilter:* and the commands of docs/redis.md"
	case errors.As(err, &dns):
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
	var handshake *tlsdial.HandshakeError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &handshake)
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
