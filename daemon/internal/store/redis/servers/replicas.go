package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

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
