package servers

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// AllowFull is the first line of a script that Redis runs at its maxmemory, too. It is for what daemons tell
// each other, and for what leads to memory being freed: the items themselves are refused then.
const AllowFull = "#!lua flags=allow-oom\n"

const always = AllowFull + "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"

// Always sends a short command on a key, also to a Redis at its maxmemory.
func Always(ctx context.Context, c redis.Cmdable, command, key string, args ...any) *redis.Cmd {
	return c.Eval(ctx, always, []string{key}, append([]any{command}, args...)...)
}
