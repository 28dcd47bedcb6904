package servers

import (
	"context"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// mostTags bounds the search for hash tags. A master that owns a single one of the 16,384 slots of a
// cluster is found with a probability of 98 %.
const mostTags = 1 << 16

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
	for n := 0; err == nil && len(without) > 0 && n < mostTags; n++ {
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
