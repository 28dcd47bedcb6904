package servers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// replicaWait bounds how long a batch waits for replicas. One that answers needs a round
// trip.
const replicaWait = time.Second

// ErrTooFewReplicas means that a batch was carried out by a master that may be cut off from
// its replicas, one of which may be the master of others by now.
var ErrTooFewReplicas = errors.New("too few replicas have confirmed the batch (redis.replicas)")

// Confirm adds to a pipeline that changes something the wait for replicas, which counts
// what its connection has sent. It returns a function that tells, when the pipeline was
// sent without an error, whether enough of them have it.
func (s *Servers) Confirm(ctx context.Context, p redis.Pipeliner) (check func() error, err error) {
	want := s.opt.Replicas
	if want == 0 {
		return func() error { return nil }, nil
	}
	// Longer than other commands it never takes: the connection's timeout holds.
	cmd := redis.NewIntCmd(ctx, "wait", want, min(replicaWait, s.opt.Timeout/2).Milliseconds())
	return func() error {
		if got := cmd.Val(); got < int64(want) {
			return fmt.Errorf("%w: %d of %d", ErrTooFewReplicas, got, want)
		}
		return nil
	}, p.Process(ctx, cmd)
}
