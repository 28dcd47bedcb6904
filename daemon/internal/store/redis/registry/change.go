package registry

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// EntryOf returns the entry that the registry has for the spec of e, or e if it has none.
func (r *Registry) EntryOf(ctx context.Context, e Entry) (Entry, error) {
	have, err := r.servers.Admin.HGetAll(ctx, Key).Result()
	if err != nil {
		return e, err
	}
	return matchEntry(have, e)
}

// Registered returns the entry that the registry has of a filter.
func (r *Registry) Registered(ctx context.Context, spec engine.Spec) (Entry, error) {
	text, err := r.servers.Admin.HGet(ctx, Key, spec.Name).Result()
	if err == redis.Nil {
		return Entry{}, &engine.UnknownFilterError{Ref: spec.Name}
	} else if err != nil {
		return Entry{}, fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	e, err := Decode(spec.Name, text)
	if err == nil && e.Spec != spec {
		err = madeAgain(spec.Name)
	}
	return e, err
}

// Supersede replaces old with e in the registry. It returns the entry that the registry has
// then: e, or what another daemon has put there meanwhile; and the version from which daemons
// have it.
func (r *Registry) Supersede(ctx context.Context, old, e Entry, tomb string) (found Entry, version int64, err error) {
	text, err := e.Encode()
	if err != nil {
		return e, 0, err
	}
	oldTomb, err := TombOf(old)
	if err != nil {
		return e, 0, err
	}
	version, err = r.change(ctx, func(have, tombs map[string]string) ([]command, error) {
		if have[e.Spec.Name] == "" {
			return nil, &engine.UnknownFilterError{Ref: e.Spec.Name}
		}
		its, err := Decode(e.Spec.Name, have[e.Spec.Name])
		switch found = its; {
		case err != nil:
			return nil, err
		case its.Spec != e.Spec:
			return nil, madeAgain(e.Spec.Name)
		case its != old:
			return nil, nil
		case tombs[tomb] != r.self:
			return nil, fmt.Errorf("filter %s: %w: redis lost, or another daemon removed, what was made of it", e.Spec.Name, engine.ErrUnavailable)
		}
		found = e
		return []command{
			{"hset", Key, e.Spec.Name, text, FormatField, format},
			{"hdel", TombstonesKey, tomb},
			{"hset", TombstonesKey, oldTomb, Dropped},
			{"incr", versionKey},
		}, nil
	})
	if err == nil && version == 0 { // another daemon was quicker, or this one, and the answer was lost
		version, err = r.Version(ctx)
	}
	return found, version, err
}

// Register puts a filter into the registry, in place of its tombstone, and returns the entry
// that it has there: e, or that of another daemon that was quicker.
func (r *Registry) Register(ctx context.Context, e Entry, tomb string) (Entry, error) {
	text, err := e.Encode()
	if err != nil {
		return e, err
	}
	var found Entry
	_, err = r.change(ctx, func(have, tombs map[string]string) ([]command, error) {
		if found, err = matchEntry(have, e); err != nil || found != e {
			return nil, err
		}
		if have[e.Spec.Name] == text { // the answer was lost
			return nil, nil
		}
		if tombs[tomb] != r.self {
			return nil, fmt.Errorf("filter %s: %w: redis lost, or another daemon removed, what was made of it", e.Spec.Name, engine.ErrUnavailable)
		}
		return []command{{"hset", Key, e.Spec.Name, text, FormatField, format}, {"hdel", TombstonesKey, tomb}}, nil
	})
	return found, err
}

// command is one of Redis: its name, a key, and the rest.
type command []any

// ifSame sends commands if hashes are as they were read, in one step. MULTI would not do: a Redis at its maxmemory
// refuses all that is queued. KEYS are the hashes, then the other keys of the commands; ARGV, for each hash, the
// number of its fields, and each field with its value; then, for each command, the number of its words, and they.
// It returns what the last command did, or -1.
var ifSame = redis.NewScript(servers.AllowFull + `
local at = 2
for i = 1, tonumber(ARGV[1]) do
  local n = tonumber(ARGV[at])
  if redis.call('HLEN', KEYS[i]) ~= n then return -1 end
  for j = at + 1, at + 2 * n, 2 do
    if redis.call('HGET', KEYS[i], ARGV[j]) ~= ARGV[j + 1] then return -1 end
  end
  at = at + 2 * n + 1
end
local last = 0
while at <= #ARGV do
  local n = tonumber(ARGV[at])
  last = redis.call(unpack(ARGV, at + 1, at + n))
  at = at + n + 1
end
return last
`)

// changeHashes lets the function change look at hashes and return the commands to be sent if nobody has
// changed the hashes meanwhile; otherwise it is asked again. It returns what the last command did; 0: there
// was none. The hashes and the keys of the commands must be in one slot of a cluster.
func (r *Registry) changeHashes(ctx context.Context, change func(have []map[string]string) ([]command, error), keys ...string) (last int64, err error) {
	for range 100 {
		have, args, all := make([]map[string]string, len(keys)), []any{len(keys)}, keys[:len(keys):len(keys)]
		for i, key := range keys {
			if have[i], err = r.servers.Admin.HGetAll(ctx, key).Result(); err != nil {
				return 0, err
			}
			args = append(args, len(have[i]))
			for field, value := range have[i] {
				args = append(args, field, value)
			}
		}
		commands, err := change(have)
		if err != nil || len(commands) == 0 {
			return 0, err
		}
		for _, c := range commands {
			args = append(append(args, len(c)), c...)
			all = append(all, c[1].(string))
		}
		if last, err = ifSame.Run(ctx, r.servers.Admin, all, args...).Int64(); err != nil || last >= 0 {
			return last, err
		}
	}
	return 0, fmt.Errorf("key %s: others change it all the time: %w", keys[0], engine.ErrUnavailable)
}

// change is changeHashes of the registry and its tombstones.
func (r *Registry) change(ctx context.Context, change func(have, tombs map[string]string) ([]command, error)) (last int64, err error) {
	return r.changeHashes(ctx, func(have []map[string]string) ([]command, error) { return change(have[0], have[1]) }, Key, TombstonesKey)
}

// Unregister takes a filter out of the registry and leaves its keys to the cleaner, even if another
// daemon has cleared it since this one looked. It does nothing if the registry no longer has it. It
// returns the version from which daemons know that.
func (r *Registry) Unregister(ctx context.Context, spec engine.Spec) (version int64, err error) {
	version, err = r.change(ctx, func(have, _ map[string]string) ([]command, error) {
		if have[spec.Name] == "" {
			return nil, nil
		}
		its, err := Decode(spec.Name, have[spec.Name])
		if err != nil {
			return nil, err
		}
		if its.Spec != spec {
			return nil, madeAgain(spec.Name)
		}
		tomb, err := TombOf(its)
		return []command{{"hdel", Key, spec.Name}, {"hset", TombstonesKey, tomb, Dropped}, {"incr", versionKey}}, err
	})
	if err == nil && version == 0 {
		version, err = r.Version(ctx)
	}
	return version, err
}

// madeAgain is the error for a filter in whose place another daemon has made one with other parameters.
func madeAgain(name string) error {
	return fmt.Errorf("filter %s: was dropped and made again by another daemon: %w", name, engine.ErrConflict)
}

// matchEntry returns the entry for the spec of e, given those that exist: an equal one of them,
// or e.
func matchEntry(have map[string]string, e Entry) (Entry, error) {
	spec := e.Spec
	for name, other := range have {
		if name == FormatField {
			continue
		}
		its, err := Decode(name, other)
		switch {
		case err != nil && (name == spec.Name || spec.ID != 0 && idOf(other) == spec.ID):
			return e, fmt.Errorf("filter %s, id %d: %w: %w", spec.Name, spec.ID, engine.ErrConflict, err)
		case err != nil: // in quarantine
		case its.Spec == spec:
			return its, nil
		case its.Spec.Name == spec.Name || its.Spec.ID == spec.ID:
			return e, fmt.Errorf("filter %s, id %d: redis has %s, id %d: %w", spec.Name, spec.ID, its.Spec.Name, its.Spec.ID, engine.ErrConflict)
		}
	}
	return e, nil
}
