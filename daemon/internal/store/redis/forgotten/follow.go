package forgotten

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
)

// ReadWitnesses adds to a pipeline the commands that read the witnesses of the groups in mask. Call the
// function that it returns once the pipeline has been sent without an error: it puts the
// witnesses into heard, and returns insync.ErrLost if one is missing.
func (l *Log) ReadWitnesses(ctx context.Context, p redis.Pipeliner, mask uint64) (hear func(heard *Marks) error, err error) {
	var groups []int
	for g := range Groups {
		if mask>>g&1 != 0 {
			groups = append(groups, g)
		}
	}
	if _, cluster := l.servers.Batches.(*redis.ClusterClient); !cluster && len(groups) > 1 {
		args := make([]any, 1, 1+len(groups))
		args[0] = "mget"
		for _, g := range groups {
			args = append(args, l.keys[g].witness)
		}
		cmd := redis.NewSliceCmd(ctx, args...)
		return func(heard *Marks) error {
			for i, value := range cmd.Val() {
				if err := l.heard(heard, groups[i], value); err != nil {
					return err
				}
			}
			return nil
		}, p.Process(ctx, cmd)
	}
	cmds := make([]*redis.StringCmd, len(groups))
	for i, g := range groups {
		cmds[i] = redis.NewStringCmd(ctx, "get", l.keys[g].witness)
		if err := p.Process(ctx, cmds[i]); err != nil {
			return nil, err
		}
	}
	return func(heard *Marks) error {
		for i, cmd := range cmds {
			var value any
			if cmd.Err() == nil {
				value = cmd.Val()
			}
			if err := l.heard(heard, groups[i], value); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// heard records the value of a witness; nil: the witness is missing.
func (l *Log) heard(heard *Marks, g int, value any) error {
	if value == nil {
		return fmt.Errorf("key %s: %w", l.keys[g].witness, insync.ErrLost)
	}
	at, err := strconv.ParseInt(fmt.Sprint(value), 10, 64)
	if err != nil || at < 0 {
		return fmt.Errorf("key %s: has %q, want a number: %w", l.keys[g].witness, value, insync.ErrLost)
	}
	if at >= Reserved {
		at -= Reserved
		l.reserving[g].Store(true)
	}
	heard[g] = at
	return nil
}

// read returns the count of the witness KEYS[1] without Reserved (2^40), or -1 if the witness
// is missing, and the last ARGV[1] entries of the log KEYS[2].
const read = `
local at = redis.call('GET', KEYS[1])
if not at then return {-1} end
return {tonumber(at) % 1099511627776, redis.call('LRANGE', KEYS[2], -tonumber(ARGV[1]), -1)}
`

// Follow drops forgotten items from the mirror. It uses c to read the log of each group whose
// heard count is higher than the count to which this daemon has followed.
func (l *Log) Follow(ctx context.Context, c redis.UniversalClient, heard *Marks) error {
	marks := l.Marks()
	var cmds [Groups]*redis.Cmd
	behind := false
	for g := range Groups {
		behind = behind || heard[g] > marks[g]
	}
	if !behind {
		return nil
	}
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for g := range Groups {
			if heard[g] > marks[g] {
				cmds[g] = p.Eval(ctx, read, []string{l.keys[g].witness, l.keys[g].log}, Keep)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for g, cmd := range cmds {
		if cmd == nil {
			continue
		}
		at, last, err := reading(cmd)
		if err != nil {
			return fmt.Errorf("key %s: %w", l.keys[g].log, err)
		}
		if at < heard[g] {
			return fmt.Errorf("key %s: %w", l.keys[g].witness, insync.ErrLost)
		}
		l.note(g, at, last)
	}
	return nil
}

// FollowFrom is Follow for a batch that began at marks: a group whose count is lower than it
// was then has been lost.
func (l *Log) FollowFrom(ctx context.Context, c redis.UniversalClient, marks, heard *Marks) error {
	for g := range Groups {
		if heard[g] != Unknown && heard[g] < marks[g] {
			return fmt.Errorf("key %s: counts from a lower number: %w", l.keys[g].witness, insync.ErrLost)
		}
	}
	return l.Follow(ctx, c, heard)
}

// reading parses the answer of read.
func reading(cmd *redis.Cmd) (at int64, last []bloom.Hash, err error) {
	answer, err := cmd.Slice()
	if err != nil {
		return 0, nil, err
	}
	at, ok := answer[0].(int64)
	if ok && at == Unknown {
		return at, nil, nil
	}
	if !ok || len(answer) != 2 {
		return 0, nil, fmt.Errorf("unexpected answer %v", answer)
	}
	texts, _ := answer[1].([]any)
	for _, text := range texts {
		item, _ := text.(string)
		if key, ok := Decode(item); ok {
			last = append(last, key)
		}
	}
	if len(last) != len(texts) { // written by another program: as good as none
		last = nil
	}
	return at, last, nil
}

// Decode reads what Encode wrote.
func Decode(text string) (key bloom.Hash, ok bool) {
	if len(text) != 16 {
		return key, false
	}
	b := []byte(text)
	return bloom.Hash{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}, true
}

// Encode returns the form of an item in the log and in the leases: its 16 bytes.
func Encode(key bloom.Hash) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16), key.Hi)
	return string(binary.BigEndian.AppendUint64(b, key.Lo))
}
