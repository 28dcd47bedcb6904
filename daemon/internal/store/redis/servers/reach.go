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
// answers.
func Unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout)
}

// ClientLog receives what go-redis has to say. It is about single connections: many lines a
// second while a server is away, which the store reports in one line.
type ClientLog struct{ Log *slog.Logger }

// Printf implements go-redis's logger.
func (l ClientLog) Printf(ctx context.Context, format string, v ...any) {
	l.Log.DebugContext(ctx, "go-redis", "says", fmt.Sprintf(format, v...))
}
