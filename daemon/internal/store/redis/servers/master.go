package servers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

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
