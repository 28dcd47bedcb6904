package exact

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const (
	// maxEncoded is set-max-intset-entries as Redis has it by default: larger sets are encoded
	// in several times the memory. A larger setting would make each insertion expensive.
	maxEncoded = 512
	// minEncoded is the size to which sets may grow if the setting is even less.
	minEncoded = 16
)

// split puts the members of the set KEYS[1] into the four sets that follow, by the two bits of a
// member at ARGV[1], a power of four. Numbers of Lua have 53 bits, so these bits are taken from
// the last 15 digits: these have the 15 lowest bits of a number, because 10^15 is a multiple of
// 2^15. If memory has run out, the first SADD is refused, and nothing is done.
const split = `
if redis.call('TYPE', KEYS[1]).ok ~= 'set' then return 0 end
local parts = {{}, {}, {}, {}}
for _, member in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local negative = string.sub(member, 1, 1) == '-'
  local digits = negative and string.sub(member, 2) or member
  local low = tonumber(string.sub(digits, -15)) % 32768
  if negative then low = (32768 - low) % 32768 end
  local part = parts[math.floor(low / tonumber(ARGV[1])) % 4 + 1]
  part[#part + 1] = member
end
for i = 1, 4 do
  local part = parts[i]
  for from = 1, #part, 1000 do
    redis.call('SADD', KEYS[i + 1], unpack(part, from, math.min(from + 999, #part)))
  end
end
redis.call('SET', KEYS[1], '1')
return 1
`

// divide splits nodes whose sets are large. It is not part of the batch that has found them: if
// it fails, the next one tries.
func (s *Set) divide(ctx context.Context, nodes map[node]bool) {
	if len(nodes) == 0 {
		return
	}
	var cmds []*redis.Cmd
	var sent []node
	_, err := s.Servers.Batches.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n := range nodes {
			keys := []string{string(n.appendKey(nil, s.Prefix))}
			for i := range fan {
				keys = append(keys, string(n.child(i).appendKey(nil, s.Prefix)))
			}
			cmds, sent = append(cmds, p.Eval(ctx, split, keys, 1<<(fanBits*(n.level-s.tree.base)))), append(sent, n)
		}
		return nil
	})
	if err != nil {
		s.Log.Debug("split of sets in redis", "filter", s.Spec.Name, "err", err)
	}
	for i, cmd := range cmds {
		if cmd.Err() == nil {
			s.tree.note(sent[i])
		}
	}
}

// look asks the servers how large sets may grow, and whether they keep anything on disk.
func (s *Set) look(ctx context.Context) {
	s.full.Store(maxEncoded * 3 / 4)
	sizes, err := s.Servers.Setting(ctx, "set-max-intset-entries")
	for _, size := range sizes {
		if n, err := strconv.ParseInt(size.Value, 10, 64); err == nil {
			s.full.Store(min(s.full.Load(), max(n, minEncoded)*3/4))
		}
	}
	if err == nil && s.full.Load() < maxEncoded*3/4 {
		s.Log.Warn("sets in redis are kept small, which takes more memory", "filter", s.Spec.Name,
			"hint", "CONFIG SET set-max-intset-entries 512 on all servers, and the same in redis.conf")
	}
	kept, err := s.Servers.Setting(ctx, "appendonly")
	for _, k := range kept {
		if err == nil && k.Value == "no" {
			s.Log.Warn("redis keeps nothing on disk: when it is restarted, this filter has only what is in the mirrors of running daemons (redis.mirror_bytes)",
				"filter", s.Spec.Name, "server", k.Server, "hint", "CONFIG SET appendonly yes, and the same in redis.conf")
		}
	}
}
