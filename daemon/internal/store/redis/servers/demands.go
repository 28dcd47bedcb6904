package servers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"
)

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
