package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Reach logs, in one line each, when Redis cannot be reached, and when it can be reached again.
type Reach struct {
	mu    sync.Mutex
	since time.Time // zero: it can be reached
}

// Note records how an exchange with Redis ended.
func (r *Reach) Note(log *slog.Logger, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && !r.since.IsZero():
		log.Info("redis can be reached again", "away", time.Since(r.since).Round(time.Millisecond))
		r.since = time.Time{}
	case err != nil && Unreachable(err) && r.since.IsZero():
		r.since = time.Now()
		log.Warn("redis cannot be reached; calls are answered 503 until it can", "err", err)
	}
}

// Away tells whether Redis could not be reached when it was last tried.
func (r *Reach) Away() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.since.IsZero()
}

// Unreachable reports whether err is that of a server that is away, and not that of one that
// answers, or of this machine: each error number of the system is a net.Error, too.
func Unreachable(err error) bool {
	return errors.As(err, new(*net.OpError)) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout)
}

// ClientLog receives what go-redis has to say. It is about single connections: many lines a
// second while a server is away, which the store reports in one line.
type ClientLog struct{ Log *slog.Logger }

// Printf implements go-redis's logger.
func (l ClientLog) Printf(ctx context.Context, format string, v ...any) {
	l.Log.DebugContext(ctx, "go-redis", "says", fmt.Sprintf(format, v...))
}

// checkDurability refuses a server that may answer before the change is on its disk.
func checkDurability(ctx context.Context, c *redis.Client) error {
	addr := c.Options().Addr
	got, err := c.ConfigGet(ctx, "append*").Result()
	if err != nil {
		return fmt.Errorf("redis %s: redis.durability: fsync wants to see appendonly and appendfsync: %w\nhint: let the user call CONFIG GET, or set redis.durability: server", addr, err)
	}
	for _, want := range [][2]string{{"appendonly", "yes"}, {"appendfsync", "always"}} {
		if got[want[0]] != want[1] {
			return fmt.Errorf("redis %s: %s is %q, and redis.durability: fsync wants %q\nhint: redis-cli -u redis://%s CONFIG SET %s %s, and the same in redis.conf",
				addr, want[0], got[want[0]], want[1], addr, want[0], want[1])
		}
	}
	return nil
}

// WarnSplit warns of a master under sentinels that goes on writing when it is cut off from its
// replicas: the sentinels may have made one of them the master, and an item is then new on
// both.
func (s *Servers) WarnSplit(ctx context.Context, log *slog.Logger) {
	if s.opt.MasterName == "" || s.opt.Replicas > 0 {
		return
	}
	_ = s.Masters(ctx, func(ctx context.Context, c *redis.Client) error {
		got, err := c.ConfigGet(ctx, "min-replicas-to-write").Result()
		if err == nil && got["min-replicas-to-write"] == "0" {
			log.Warn("a master that is cut off from its replicas goes on, while the sentinels make another one: items may be new twice",
				"server", c.Options().Addr, "hint", "set redis.replicas: 1, and on all servers min-replicas-to-write 1 and what else docs/redis.md names")
		}
		return nil // managed servers refuse CONFIG
	})
}

// Value is the value of a setting on one server.
type Value struct{ Server, Value string }

// Setting asks all masters for a setting. Managed servers may refuse to answer.
func (s *Servers) Setting(ctx context.Context, name string) (values []Value, err error) {
	var mu sync.Mutex
	err = s.Masters(ctx, func(ctx context.Context, c *redis.Client) error {
		got, err := c.ConfigGet(ctx, name).Result()
		mu.Lock()
		defer mu.Unlock()
		if value, ok := got[name]; ok {
			values = append(values, Value{c.Options().Addr, value})
		}
		return err
	})
	return values, err
}

// PieceItems bounds a pipeline: at most this many commands are sent before their replies are
// read.
const PieceItems = 4000

// Verdict is what became of a command that sets an item if it does not exist.
type Verdict int

const (
	Seen Verdict = iota
	Fresh
	Unknown // the connection broke before the reply: executed or not
	Undone  // not executed, or in a stripe that has lost its head and will be replaced
)

// VerdictOf tells what became of a command that ended in err.
func VerdictOf(err error) Verdict {
	if isRedisError(err) || notSent(err) {
		return Undone
	}
	return Unknown
}

func isRedisError(err error) bool {
	return errors.As(err, new(redis.Error)) && !errors.Is(err, redis.ErrClosed)
}

// notSent tells whether err occurred before the command left this process.
func notSent(err error) bool {
	return isDial(err) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) ||
		errors.Is(err, redis.ErrClosed) || errors.Is(err, errReplica) || errors.Is(err, ErrNotSynced)
}

// ErrNotAsked is the error of commands that were not sent because another had failed.
var ErrNotAsked = fmt.Errorf("not asked: %w", redis.ErrClosed)
