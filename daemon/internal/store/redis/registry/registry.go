// Package registry has what Redis knows about filters: which exist, their ids, what is left of
// those that were dropped or never completed, and entries that cannot be read. Each change is
// one script, so that daemons see filters whole. The package knows nothing about the
// contents of filters.
package registry

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

const (
	// Key is a hash: name of a filter -> entry, as Encode makes it.
	Key = "urifilter:filters"
	// FormatField is the field of Key with the version of everything in Redis, 1.
	FormatField = ":format"

	format = "1"
	// versionKey counts the clears and drops that were ever made. It is in the registry's slot.
	versionKey = "urifilter:version:{" + Key + "}"
)

// Registry is the registry of one Redis as one daemon sees it. Its methods may be called by
// several goroutines.
type Registry struct {
	servers *servers.Servers
	self    string // the name of this daemon
	log     *slog.Logger

	highestID atomic.Int64 // that this daemon has seen in idsKey

	mu sync.Mutex
	id string // of the registry with which the filters here agree

	Bad shared.Quarantine // filters that this daemon does not serve
}

// New returns a registry that has not been read yet, for the daemon named self.
func New(servers *servers.Servers, self string, log *slog.Logger) *Registry {
	return &Registry{servers: servers, self: self, log: log}
}

// Look returns an error if the data in Redis is that of another program.
func (r *Registry) Look(ctx context.Context) error {
	err := r.servers.Admin.HExists(ctx, Key, FormatField).Err()
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		err = Foreign(Key)
	}
	return err
}

// Entries reads the filters' entries, without the format field.
func (r *Registry) Entries(ctx context.Context) (map[string]string, error) {
	all, err := r.servers.Admin.HGetAll(ctx, Key).Result()
	if err != nil {
		return nil, err
	}
	if f, ok := all[FormatField]; len(all) > 0 && (!ok || f != format) {
		return nil, fmt.Errorf("key %s: format %q, this version knows %s\nhint: update urifilter, or give it a database of its own (redis.db)", Key, f, format)
	}
	delete(all, FormatField)
	return all, nil
}

// idKey is the key of a string that distinguishes a registry from one that was begun after it
// was lost: filters that the new one lacks were not dropped. It is in the registry's slot of a
// cluster.
const idKey = "urifilter:registry:{" + Key + "}"

// read returns the hash KEYS[1] and the string KEYS[2], "" if there is none.
var read = redis.NewScript(`#!lua flags=no-writes
return {redis.call('HGETALL', KEYS[1]), redis.call('GET', KEYS[2]) or ''}
`)

// Read reads all fields of the registry, and its id, at one moment. The registry has no id if
// it was lost, or if only earlier versions have written to it.
func (r *Registry) Read(ctx context.Context) (all map[string]string, id string, err error) {
	answer, err := read.Run(ctx, r.servers.Admin, []string{Key, idKey}).Slice()
	if err != nil {
		return nil, "", err
	}
	fields, _ := answer[0].([]any)
	id, _ = answer[1].(string)
	all = make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		all[name], _ = fields[i+1].(string)
	}
	return all, id, nil
}

// IsCurrent tells whether an id is that of the registry that was last resynced.
func (r *Registry) IsCurrent(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return id != "" && r.id == id
}

// Agreed records that the filters here agree with the registry of that id.
func (r *Registry) Agreed(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id = id
}

// Replaced tells whether an id is that of another registry than the one that the filters here
// agreed with.
func (r *Registry) Replaced(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id != "" && r.id != id
}

// Version returns the number of clears and drops that were ever made.
func (r *Registry) Version(ctx context.Context) (int64, error) {
	n, err := r.servers.Admin.Get(ctx, versionKey).Int64()
	if err == redis.Nil {
		return 0, nil
	}
	return n, err
}

// mend adds to the registry KEYS[1] the entries ARGV[3...] that it lacks, and its format,
// ARGV[1]. A registry that had no format is new, and gets the id ARGV[2] at KEYS[2]. mend
// returns the id.
var mend = redis.NewScript(servers.AllowFull + `
for i = 3, #ARGV, 2 do redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i+1]) end
if redis.call('HSETNX', KEYS[1], ':format', ARGV[1]) == 1 then redis.call('DEL', KEYS[2]) end
redis.call('SET', KEYS[2], ARGV[2], 'NX')
return redis.call('GET', KEYS[2])
`)

// Mend adds entries that are missing, and the id that distinguishes one registry from another,
// in one step. It returns the id.
func (r *Registry) Mend(ctx context.Context, entries []any) (string, error) {
	args := append([]any{format, rand.Text()}, entries...)
	return mend.Run(ctx, r.servers.Admin, []string{Key, idKey}, args...).Text()
}

// MapPrefix returns the prefix of the keys of a bit-map. The keys that a dropped filter of the
// same name has left do not begin with it, if the filter was created by this version.
func MapPrefix(e Entry) string {
	prefix := fmt.Sprintf("urifilter:{%d-%s", e.Spec.ID, e.Spec.Name)
	if e.Tag != "" {
		prefix += ":" + e.Tag
	}
	return prefix
}

// StripeKey returns the key of a stripe of a bit-map.
func StripeKey(e Entry, i int) string { return fmt.Sprintf("%s:%d}", MapPrefix(e), i) }

// UnackedKey returns the key of the set of unacknowledged items.
func UnackedKey(e Entry) string { return MapPrefix(e) + "}:unacknowledged" }

// Foreign returns the error for a key that is not ours.
func Foreign(key string) error {
	return fmt.Errorf("key %s: holds data of another program\nhint: give urifilter a database of its own (redis.db), or rename that key", key)
}

// ItemPrefix returns the prefix of the keys of a filter that is not a bit-map. The keys that a
// dropped filter of the same id has left do not begin with it.
func ItemPrefix(e Entry) string {
	var b []byte
	for _, n := range []uint64{e.Seed, e.Gen, uint64(e.Born)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return fmt.Sprintf("urifilter:{%d:%08x:", e.Spec.ID, bloom.Checksum(b))
}

// idsKey is the key of a hash with the ids, see shared.HighestID.
const idsKey = "urifilter:ids"

var _ engine.Numbers = (*Registry)(nil)

// TakeID implements engine.Numbers. If Redis lost its data, counting goes on from the highest
// id that this daemon knows.
func (r *Registry) TakeID(ctx context.Context, name string, least int) (id int, err error) {
	err = r.number(ctx, func(have map[string]int) (changes map[string]int) {
		id, changes = shared.TakeID(have, name, least)
		return changes
	})
	return id, err
}

// NoteID implements engine.Numbers.
func (r *Registry) NoteID(ctx context.Context, id int) error {
	return r.number(ctx, func(have map[string]int) map[string]int { return shared.NoteID(have, id) })
}

// number changes idsKey in one step: given the present fields, set returns those to set; nil: none.
func (r *Registry) number(ctx context.Context, set func(have map[string]int) map[string]int) error {
	highest := 0
	_, err := r.changeHashes(ctx, func(fields []map[string]string) (commands []command, err error) {
		have := map[string]int{}
		for name, text := range fields[0] {
			if have[name], err = strconv.Atoi(text); err != nil && name == shared.HighestID {
				return nil, Foreign(idsKey)
			}
		}
		have[shared.HighestID] = max(have[shared.HighestID], int(r.highestID.Load()))
		changes := set(have)
		for name, id := range changes {
			commands = append(commands, command{"hset", idsKey, name, id})
		}
		highest = changes[shared.HighestID]
		return commands, nil
	}, idsKey)
	if err == nil && highest > 0 {
		r.highestID.Store(int64(highest))
	}
	return err
}

// ForgetID makes sure that a name that was dropped gets another id if it is created again.
func (r *Registry) ForgetID(ctx context.Context, name string) error {
	return r.servers.Admin.HDel(ctx, idsKey, name).Err()
}
