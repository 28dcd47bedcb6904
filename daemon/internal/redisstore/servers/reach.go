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

// Reach tells, in one line each, that Redis cannot be reached, and that it can be again.
type Reach struct {
	mu    sync.Mutex
	since time.Time // zero: it can be reached
}

// Note is told how a talk with Redis ended.
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

// Unreachable tells the errors of a server that is away from those of one that answers.
func Unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout)
}

// ClientLog takes what go-redis has to say: about single connections, many lines a second
// while a server is away, of which the store tells in one.
type ClientLog struct{ Log *slog.Logger }

// Printf implements go-redis's logger.
func (l ClientLog) Printf(ctx context.Context, format string, v ...any) {
	l.Log.DebugContext(ctx, "go-redis", "says", fmt.Sprintf(format, v...))
}
