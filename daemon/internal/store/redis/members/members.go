// Package members has the daemons that share a Redis: the heartbeats by which they know of
// each other, which of them are dead, and what they tell each other of how far they are. It
// knows nothing of filters.
package members

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

const (
	// membersKey is a hash: daemon -> its heartbeat.
	membersKey = "urifilter:members"
	// followedKey is a hash: daemon -> the version of the registry that it serves.
	followedKey = "urifilter:followed"
)

// Members is this daemon among those that share a Redis. HoldLives and SignOff are called by
// one goroutine at a time, the other methods by several.
type Members struct {
	*peers
	admin redis.UniversalClient
	log   *slog.Logger

	dir         string     // where this daemon keeps what proves to the next one there that it is dead; "": nowhere
	lives       *disk.Lock // of dir; nil: not held
	claimFailed bool       // and it was said
}

// New is a daemon that nobody has heard of yet. In dir, which may be "", it keeps what proves
// to the next one there that it is dead. Others are taken for dead when they have shown no
// heartbeat for deadAfter, which is PeerDead but in tests.
func New(admin redis.UniversalClient, log *slog.Logger, dir string, deadAfter time.Duration) *Members {
	return &Members{peers: newPeers(selfName(), deadAfter), admin: admin, log: log, dir: dir}
}

// selfName tells this daemon from all others, its own earlier starts included.
func selfName() string {
	host, _ := os.Hostname()
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), hex.EncodeToString(b[:]))
}

// Beat gives a heartbeat and reads the others'.
func (m *Members) Beat(ctx context.Context) error {
	var members *redis.MapStringStringCmd
	_, err := m.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		servers.Always(ctx, p, "hset", membersKey, m.Self, m.heartbeat())
		members = p.HGetAll(ctx, membersKey)
		return nil
	})
	if err != nil {
		return err
	}
	stale := m.note(members.Val(), time.Now())
	fallen := m.unannounced(members.Val())
	if len(stale)+len(fallen) == 0 {
		return nil
	}
	_, err = m.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		if len(stale) > 0 {
			p.HDel(ctx, membersKey, stale...)
			p.HDel(ctx, followedKey, stale...)
		}
		for _, id := range fallen {
			servers.Always(ctx, p, "hset", membersKey, id, killed)
		}
		return nil
	})
	if err == nil && len(fallen) > 0 {
		m.log.Info("the previous process of this daemon was killed; no daemon waits for it", "daemons", strings.Join(fallen, " "))
	}
	return err
}

// Announce adds this daemon to the sets of those who have stopped, or resynced.
func (m *Members) Announce(ctx context.Context, keys ...string) error {
	_, err := m.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			servers.Always(ctx, p, "sadd", key, m.Self)
			p.Expire(ctx, key, AnnouncedTTL)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.Beat(ctx)
}

// NoteFollowed leaves the version of the registry that this daemon serves.
func (m *Members) NoteFollowed(ctx context.Context, version int64) error {
	return servers.Always(ctx, m.admin, "hset", followedKey, m.Self, version).Err()
}

// Followed is what the daemons have left by NoteFollowed.
func (m *Members) Followed(ctx context.Context) (map[string]string, error) {
	return m.admin.HGetAll(ctx, followedKey).Result()
}

// SignOff says that this daemon ends, so that nobody waits for it.
func (m *Members) SignOff(ctx context.Context) {
	_ = servers.Always(ctx, m.admin, "hset", membersKey, m.Self, goodbye+m.heartbeat()).Err() // Redis may be down
	_ = m.admin.HDel(ctx, followedKey, m.Self).Err()
}

// Close is the last that a daemon does: its name is that of a dead one from then on.
func (m *Members) Close() error { return m.releaseLives() }

// A daemon that is killed cannot sign off, and the others wait for it as for one that is
// away. The one that is started in its place knows better: each daemon holds a lock in its
// data_dir for as long as its process lives, and keeps there the names under which it and
// those before it were members. The holder of the lock knows that all of them are dead.
//
// This is only claimed where it is certain: of names that were written under the same lock
// file, by its inode, in the same boot of the machine. A data_dir that was copied, or is of
// a machine that was cloned, has another; what it names may live elsewhere.
const (
	livesLock = "redis.lock"
	livesFile = "redis.lives"
	// maxLives bounds the file. Names stay in it: an older file of Redis may bring them back.
	maxLives = 32
)

// livesJSON is the file.
type livesJSON struct {
	Boot  string   `json:"boot"` // of the machine
	Lock  string   `json:"lock"` // the lock file
	Lives []string `json:"lives"`
}

// takeLives locks dir, puts self into its file, and returns who has held the lock before
// and is dead. A *disk.InUseError says that another process holds it.
func takeLives(dir, self string) (lock *disk.Lock, dead []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	if lock, err = disk.AcquireLock(filepath.Join(dir, livesLock)); err != nil {
		return nil, nil, err
	}
	now := livesJSON{Boot: bootID(), Lock: lock.ID()}
	path := filepath.Join(dir, livesFile)
	var was livesJSON
	text, err := os.ReadFile(path)
	if err == nil && json.Unmarshal(text, &was) == nil && was.Boot == now.Boot && was.Lock == now.Lock && now.Boot != "" && now.Lock != "" {
		dead = slices.DeleteFunc(was.Lives, func(name string) bool { return name == self })
	}
	dead = dead[max(0, len(dead)-maxLives+1):]
	now.Lives = append(slices.Clone(dead), self)
	if text, err = json.Marshal(now); err == nil {
		err = disk.FS{}.WriteFile("lives", path, func(f *disk.File) error { return f.WriteAt("lives-write", append(text, '\n'), 0) })
	}
	return lock, dead, err
}

// HoldLives takes the lock, if it is free, and notes whom that proves dead.
func (m *Members) HoldLives() {
	if m.dir == "" || m.lives != nil {
		return
	}
	lock, dead, err := takeLives(m.dir, m.Self)
	if m.lives = lock; err != nil && !errors.As(err, new(*disk.InUseError)) && !m.claimFailed {
		m.claimFailed = true
		m.log.Info("if this daemon is killed, the others wait some seconds for it: the file that shows that it is dead cannot be written in data_dir", "err", err)
	}
	m.markDead(dead)
}

// releaseLives gives the lock back: the name in its file is that of a dead daemon from now on.
func (m *Members) releaseLives() error {
	if m.lives == nil {
		return nil
	}
	return m.lives.Release()
}

// bootID is new whenever the machine is started; "" where the system has none.
func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
